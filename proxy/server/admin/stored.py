"""What the last scan of the state folder found: ``/stored``.

    {"scan": {"upstream", "policy", "started", "ended", "keys", "bytes", "apps": […], "patterns": […], "findings": […],
              "largest": […], "nodes": […], …}, "left_off": {"patterns": 1950, …}}

as ``keyrail scan --json`` has it, but only the first rows of each list, and no bounds of a sample; ``left_off`` says
how many are missing.
``scan`` is null if there is none. 503 if it cannot be read.
"""

import json
from pathlib import Path
from typing import Any

from aiohttp import web

from proxy.net.config.background_thread import BackgroundThread
from proxy.server.admin.state import STATE
from proxy.server.stored.json_form import as_json
from proxy.server.stored.kept import KeptScans, read_scan

_MOST_ROWS = {"apps": 50, "patterns": 50, "faults": 100, "findings": 50, "largest": 20, "nodes": 50, "notes": 20}
_SECONDS = 10.0
_NONE = b'{"scan": null, "left_off": {}}'


class LastScan:
    """The newest file, which a thread of its own reads, once: no file system and no large scan stops the event loop."""

    def __init__(self, state_dir: Path | None) -> None:
        self._kept = None if state_dir is None else KeptScans(state_dir)
        self._thread = BackgroundThread("reads scans")
        self._known: tuple[object, bytes] = (None, _NONE)

    async def body(self) -> bytes:
        """The answer. Raises OSError and ValueError."""
        return _NONE if self._kept is None else await self._thread.run(self._read, _SECONDS)

    def _read(self) -> bytes:
        file = None if self._kept is None else self._kept.newest()
        if file is None:
            return _NONE
        version = (file, file.stat().st_mtime_ns)
        if self._known[0] != version:
            self._known = (version, json.dumps(_short(as_json(read_scan(file)))).encode())
        return self._known[1]


def serve_stored(app: web.Application) -> None:
    """Add the path."""
    last = LastScan(app[STATE].settings.state_dir)

    async def stored(_: web.Request) -> web.Response:
        try:
            return web.Response(body=await last.body(), content_type="application/json")
        except (OSError, ValueError) as error:
            text = (isinstance(error, OSError) and error.strerror) or str(error)
            return web.json_response({"error": f"the last scan cannot be read: {text}"}, status=503)

    app.router.add_get("/stored", stored)


def _short(scan: dict[str, Any]) -> dict[str, Any]:
    left_off = {name: len(scan[name]) - most for name, most in _MOST_ROWS.items() if len(scan[name]) > most}
    if scan["sample"] is not None:
        left_off["bounds"] = len(scan["sample"].pop("bounds"))
    return {"scan": scan | {name: scan[name][:most] for name, most in _MOST_ROWS.items()}, "left_off": left_off}
