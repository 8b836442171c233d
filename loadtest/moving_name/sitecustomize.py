"""Python imports this when it starts, if its folder is in PYTHONPATH: names lead where files say."""

import os
import socket
from collections.abc import Sequence
from pathlib import Path

from proxy.net.config.endpoint import Endpoint
from proxy.net.topology import primary


async def _resolve(_: object, host: str, __: int) -> Sequence[Endpoint]:
    ports = _read(Path(os.environ["MOVING_NAMES"]) / host).split()
    if not ports:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return [Endpoint("127.0.0.1", int(each)) for each in ports]


def _read(file: Path) -> str:
    with file.with_name(f"{file.name}.count").open("ab") as count:
        count.write(b".")
    return file.read_text()


setattr(primary, primary.resolve.__name__, _resolve)
