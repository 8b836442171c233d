"""Hot restart: SIGUSR2 starts the program again as a successor, which takes over the listening sockets without a gap.

    predecessor: SIGUSR2 -> start the same command line -> read "ready" from the pipe -> drain and end
    successor:   take the sockets -> policies, engine, workers as always -> ready line -> write "ready" to the pipe

While any process has a listening socket open, new connections wait and are not refused. So after an upgrade or a change
of the configuration each client loses at most one connection, which is closed when no reply is pending on it. If the
successor does not start, nothing changes: the predecessor goes on.

The sockets have the names that the configuration gives to their listeners. The successor closes sockets that its own
configuration does not name. The lock of the state folder is handed on in the same way.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

VARIABLE = "KEYRAIL_INHERITED"
"""The environment variable with the inherited descriptors; only a predecessor sets it."""

Groups = list[list[socket.socket]]
"""The sockets of one listener, for each address of its host name: one, or several that an older version has bound."""

_READY = b"+"

SUCCESSOR = "the process that takes over from this one"
_PREDECESSOR = "the process before this one"
_END_SECONDS = 5.0
"""How long a process takes to end, once it has drained."""


class Inheritance:
    """The sockets and the lock that a predecessor has handed on; without a predecessor, none."""

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        """Remove the variable from the environment, since workers inherit the environment, too."""
        told = json.loads(environment.pop(VARIABLE, "{}"))
        self._pipe: int | None = told.get("ready")
        self._lock: int | None = told.get("lock")
        if self._lock is not None:
            os.set_inheritable(self._lock, False)
        self._sockets = [(name, _opened(groups)) for name, groups in told.get("sockets", ())]
        self._beside: set[str] = set()

    def take(self, name: str) -> Groups | None:
        """The sockets of this listener; None if there are none."""
        for at, (known, groups) in enumerate(self._sockets):
            if known == name:
                del self._sockets[at]
                return groups
        return None

    @property
    def handed_on(self) -> bool:
        """Whether there is a predecessor, which goes on until it is told that this process is ready."""
        return self._pipe is not None

    def serves_beside(self, beside: set[str]) -> None:
        """Add the predecessor to these, if there is one, until it has ended."""
        if self.handed_on:
            self._beside = beside
            beside.add(_PREDECESSOR)

    def take_lock(self) -> int | None:
        """The lock of the state folder; None if there is none."""
        lock, self._lock = self._lock, None
        return lock

    def close_rest(self) -> None:
        """Close the sockets that no listener of the new configuration took, and a lock that it does not need."""
        if (lock := self.take_lock()) is not None:
            os.close(lock)
        for _, groups in self._sockets:
            _close(groups)
        self._sockets.clear()

    def tell_ready(self, drain: float) -> None:
        """Let the predecessor end, which takes it so many seconds to ``drain``."""
        if self._pipe is not None:
            end = drain + _END_SECONDS
            asyncio.get_running_loop().call_later(end, self._beside.discard, _PREDECESSOR)
            # The predecessor may have died meanwhile.
            try:
                os.write(self._pipe, _READY)
            except BrokenPipeError:
                pass
            os.close(self._pipe)
            self._pipe = None


def _opened(groups: Sequence[Sequence[int]]) -> Groups:
    opened = [[socket.socket(fileno=descriptor) for descriptor in group] for group in groups]
    for each in (each for group in opened for each in group):
        each.setblocking(False)
        each.set_inheritable(False)
    return opened


def _close(groups: Groups) -> None:
    for each in (each for group in groups for each in group):
        each.close()


class Successor:
    """A process that takes over."""

    def __init__(self, sockets: Sequence[tuple[str, Groups]], lock: int | None, environment: Mapping[str, str]) -> None:
        """Start it. Raises OSError."""
        self._ready, told = os.pipe()
        handed = [told]
        names: list[tuple[str, list[list[int]]]] = []
        wish: dict[str, Any] = {"ready": told, "sockets": names}
        try:
            os.set_inheritable(told, True)
            for name, groups in sockets:
                copies = [[os.dup(each.fileno()) for each in group] for group in groups]
                handed += [copy for group in copies for copy in group]
                names.append((name, copies))
            if lock is not None:
                wish["lock"] = os.dup(lock)
                handed.append(wish["lock"])
            for copy in handed:
                os.set_inheritable(copy, True)
            variables = {**environment, VARIABLE: json.dumps(wish)}
            self.pid = os.posix_spawn(sys.executable, [sys.executable, *sys.orig_argv[1:]], variables)
        except OSError:
            os.close(self._ready)
            raise
        finally:
            for copy in handed:
                os.close(copy)

    async def serves(self) -> bool:
        """Wait until it is ready, or has ended before that."""
        loop = asyncio.get_running_loop()
        told = asyncio.Event()
        loop.add_reader(self._ready, told.set)
        try:
            await told.wait()
            return os.read(self._ready, 1) == _READY
        finally:
            loop.remove_reader(self._ready)
            os.close(self._ready)

    def end(self) -> None:
        """End it, if it has not ended."""
        try:
            os.kill(self.pid, signal.SIGTERM)
        except ProcessLookupError:
            pass

    async def ended(self) -> int:
        """Wait until it has ended; its exit status, negative for a signal."""
        _, status = await asyncio.get_running_loop().run_in_executor(None, os.waitpid, self.pid, 0)
        return os.waitstatus_to_exitcode(status)
