"""The kill switch and remedies, which survive a restart (``--state-dir``): one JSON file with named parts.

The file is replaced as a whole, so it is never half written. Only its owner may read it.
"""

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

from proxy.net.config.background_thread import BackgroundThread
from proxy.policy_yaml.regular_file import read_regular
from proxy.server.whole_file import replace_file

_ALWAYS_THERE = "kill_switch"
_MOST_SECONDS = 5.0


class StateError(Exception):
    """The state file cannot be used; the text names it and the reason."""


class StateFile:
    """The state file; without a path, nothing survives."""

    def __init__(self, path: Path | None) -> None:
        """Read it. Raises StateError."""
        self._path = path
        self._thread = BackgroundThread("writes the state")
        self._written = path is not None
        self._parts = {} if path is None else self._read(path)

    @property
    def kept(self) -> bool:
        """Whether the file has what was put: there is one, and the last write to it has succeeded."""
        return self._written

    def part(self, name: str) -> Any:
        """The part of this name; None if there is none."""
        return self._parts.get(name)

    async def put(self, name: str, value: Any) -> None:
        """Keep a JSON value under a name. Raises OSError, also if its file system does not answer."""
        self._parts[name] = value
        if self._path is not None:
            state = {_ALWAYS_THERE: None, **self._parts}
            try:
                await self._thread.run(partial(replace_file, self._path, [json.dumps(state).encode()]), _MOST_SECONDS)
            except BaseException:
                self._written = False
                raise
            self._written = True

    def broken(self) -> StateError:
        """Return the error for a part of the wrong form."""
        return StateError(f"{self._path} is not a state file of Keyrail: repair it or remove it")

    def __str__(self) -> str:
        return str(self._path)

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            text = read_regular(path)
        except FileNotFoundError:
            if not os.access(path.parent, os.W_OK | os.X_OK):
                raise StateError(f"cannot keep state in {path}: its folder is missing or not writable") from None
            return {}
        except OSError as error:
            raise StateError(f"cannot read the state in {path}: {error.strerror}") from None
        try:
            found = json.loads(text)
        except ValueError:
            raise self.broken() from None
        if not isinstance(found, dict) or _ALWAYS_THERE not in found:
            raise self.broken()
        return found
