"""Python imports this when it starts, if its folder is in PYTHONPATH: names lead where a file says."""

import os
import socket
from collections.abc import Sequence
from pathlib import Path

from proxy.net import primary
from proxy.net.slot_map import Endpoint


async def _resolve(*_: object) -> Sequence[Endpoint]:
    ports = _read().split()
    if not ports:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return [Endpoint("127.0.0.1", int(each)) for each in ports]


def _read() -> str:
    return Path(os.environ["MOVING_NAME"]).read_text()


setattr(primary, primary.resolve.__name__, _resolve)
