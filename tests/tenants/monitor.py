"""What a real server has been sent, by MONITOR."""

from __future__ import annotations

import re
from collections.abc import Iterator

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from tests.engines import Engine

WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"')
ESCAPE = re.compile(rb"\\(?:x([0-9a-f]{2})|(.))")
ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b"}


def _unescaped(found: re.Match[bytes]) -> bytes:
    return bytes.fromhex(found[1].decode()) if found[1] else ESCAPED.get(found[2], found[2])


class Monitor:
    """What the server has been sent meanwhile by clients, as MONITOR shows it."""

    def __init__(self, engine: Engine) -> None:
        self.wire, self.engine = engine.wire(), engine
        assert self.wire.ask("MONITOR") == b"+OK\r\n"

    def commands(self, *, by_scripts: bool | None = None) -> Iterator[Command]:
        """What clients have sent and scripts have called, or only one of both."""
        self.engine.do("ECHO", "the end of it")
        while b"the end of it" not in (line := self.wire.frame()):
            words = WORD.findall(line.partition(b"] ")[2])
            if by_scripts is None or by_scripts == (b" lua] " in line.partition(b'"')[0]):
                yield Command(STANDARD, [ESCAPE.sub(_unescaped, word) for word in words])
