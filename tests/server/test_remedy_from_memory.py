"""`keyrail remedy KEY --local-cache`: all workers answer reads of one key from memory, until that is undone."""

from __future__ import annotations

import re

import pytest

from proxy.cli import main
from tests.conftest import Fleet
from tests.engines import Engine
from tests.keyrail_process import DIRECT
from tests.resp import eventually
from tests.server.running import Running, serve

KEY = "product:8841"
pytestmark = pytest.mark.skipif(DIRECT, reason="a relay has no cache")


def is_answered_from_memory(engine: Engine, running: Running) -> bool:
    """Whether no worker asks Redis: so many connections meet both."""
    before = engine.calls("get")
    for _ in range(8):
        with running.wire() as wire:
            assert wire.ask("GET", KEY) == b"$1\r\nv\r\n"
    return engine.calls("get") == before


def test_from_the_command_line(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    engine = fleet.engine("valkey-9.1", "server")
    engine.do("SET", KEY, "v")

    with serve("--upstream", engine.url, "--workers", "2", "--policy", "none") as running:
        running.ready()

        def told(*words: str) -> str:
            assert main(["remedy", *words, "--admin", running.admin]) == 0
            return capsys.readouterr().out

        assert not is_answered_from_memory(engine, running)
        tried = told(KEY, "--local-cache", "--because", "INC-9", "--dry-run")
        assert re.fullmatch(
            r"in the last minute \S+ of \S+ commands/s with this key only read it\ndry run: nothing has changed\n",
            tried,
        )
        assert told("list") == "there is no remedy\n"
        done = told(KEY, "--local-cache", "--for", "2h", "--because", "INC-9")
        assert done.startswith(f"remedy 1: reads of {KEY} are answered from memory for all until 20")
        assert done.endswith("undo it with: keyrail remedy undo 1\n")
        eventually(lambda: is_answered_from_memory(engine, running))
        eventually(lambda: bool(re.search(r" \(INC-9\); [1-9]\d* answered so far$", told("list"), re.MULTILINE)))
        assert told("undo", "1") == "remedy 1 is undone\n"
        assert not is_answered_from_memory(engine, running)
        for words in ([KEY, "--local-cache", "--cap", "all=1/s"], [KEY, "--because", "INC-9"]):
            assert main(["remedy", *words, "--admin", running.admin]) == 2
            assert "KEY --local-cache --because TEXT" in capsys.readouterr().err
