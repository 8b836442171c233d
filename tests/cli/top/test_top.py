"""`keyrail top` as a program: against a Keyrail, against none, and on a terminal."""

from __future__ import annotations

import http.server
import json
import os
import pty
import re
import select
import signal
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.cli import main
from tests.cli.top.given import COLD, INFO, SECOND, TOLD
from tests.conftest import Fleet
from tests.keyrail_process import command_line, environment
from tests.resp import PATIENCE_SECONDS, pack
from tests.server.running import Running, serve, ticks

TOKEN = "a-token-of-a-test"


@pytest.fixture(scope="module")
def watched(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, list[str]]]:
    """A Keyrail with some traffic, and what `keyrail top` needs to see it."""
    token = tmp_path_factory.mktemp("top") / "token"
    token.write_text(TOKEN)
    upstream = fleet.engine("valkey-9.1", "server").url
    with serve("--upstream", upstream, "--policy", "default", "--admin-token-file", str(token)) as running:
        with running.ready().wire() as wire:
            wire.send(pack("SET", "user:7", "x") + pack("GET", "user:7") * 8 + pack("GET", "\x1b[2J"))
            wire.frames(10)
        yield running, ["top", "--admin", running.admin, "--token-file", str(token), "--window", "600", "--once"]


def test_one_screen(watched: tuple[Running, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []
    for _ in ticks():
        assert main([*watched[1], "--count", "2"]) == 0
        lines = capsys.readouterr().out.splitlines()
        if len(lines) == 7:
            break
    assert re.fullmatch(r"keyrail \S+  route default -> valkey \S+, ready", lines[0])
    assert lines[4].split()[:7] == ["KEY", "RATE/s", "SHARE", "READS", "HIT", "BYTES/s", "SLOT"]
    assert "user:7" in lines[5].split()
    assert "\x1b" not in "".join(lines)


def test_all_of_it_for_programs(watched: tuple[Running, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    found: Any = {}
    for _ in ticks():
        assert main([*watched[1], "--json", "--by", "writes"]) == 0
        found = json.loads(capsys.readouterr().out)
        if found["hotkeys"]["keys"]:
            break
    assert (found["route"], found["window"], found["info"]["ready"]) == ("default", 600, True)
    assert (found["hotkeys"]["keys"][0]["key"], found["hotkeys"]["window"]) == ("user:7", 600)
    assert {"traffic", "kill_switch", "patterns", "slots", "clients", "slow", "rules", "violations"} <= found.keys()
    assert {rule["rule"] for rule in found["rules"]["rules"]} >= {"no-keyspace-walks"}


def test_what_cannot_work_is_one_line(
    watched: tuple[Running, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = "http://127.0.0.1:1"
    redis = f"http://127.0.0.1:{watched[0].ports()[0]}"
    wanted = "--admin: expected http://HOST:PORT, got "
    for status, arguments, expected in (
        (1, ["--admin", nowhere], f"{nowhere}: Connection refused"),
        (1, ["--admin", redis], f"{redis}: not the admin port of a Keyrail"),
        (1, ["--admin", watched[0].admin], f"{watched[0].admin}: expected the admin token, as in .*"),
        (2, ["--admin", "ftp://x"], f"{wanted}'ftp://x'"),
        (2, ["--admin", "127.0.0.1:9121"], f"{wanted}'127.0.0.1:9121'"),
        (2, ["--admin", "http://127.0.0.1:99999"], f"{wanted}'http://127.0.0.1:99999'"),
        (2, ["--token-file", str(tmp_path / "none")], "cannot read the token in .*: No such file or directory"),
        (2, [*watched[1][1:], "--route", "other"], "--route other: expected one of default"),
    ):
        assert main(["top", *arguments]) == status
        answer = capsys.readouterr()
        assert answer.out == ""
        assert re.fullmatch(f"keyrail: {expected}\n", answer.err), answer.err
    assert main(["top", "--json"]) == 2
    assert capsys.readouterr().err == "keyrail: --json needs --once\n"


class Admin:
    """An admin port that tells what it is told to, at once."""

    def __init__(self, port: int = 0) -> None:
        told = {
            **TOLD,
            "hotkeys": {**TOLD["hotkeys"], "keys": [{**COLD, "key": "\x1b]0;x\x07"}]},
            "info": {"routes": [INFO], "kill_switch": {"on": False}},
            "rules": {"routes": [TOLD["rules"]]},
            "traffic": {"seconds": [SECOND]},
        }

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(told[self.path[1:].partition("?")[0]]).encode())

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


class Screen:
    """`keyrail top` on a terminal of 80 by 24, and all that it has written there."""

    def __init__(self, port: int) -> None:
        self.master, self._slave = pty.openpty()
        termios.tcsetwinsize(self._slave, (24, 80))
        self._before = termios.tcgetattr(self._slave)
        self.process = subprocess.Popen(
            [*command_line()[:-1], "top", "--admin", f"http://127.0.0.1:{port}"],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            env={**environment(), "TERM": "xterm", "LC_ALL": "C.UTF-8"},
            start_new_session=True,
        )
        self.seen = ""

    def wait_for(self, text: str) -> None:
        """Read until the text is among what has been written since the last call."""
        found, end = "", time.monotonic() + 2 * PATIENCE_SECONDS
        while text not in found:
            left = end - time.monotonic()
            assert left > 0, f"no {text!r} in {found!r}"
            assert self.process.poll() is None or "\x1b[?1049l" in text, f"it has ended: {found!r}"
            if select.select([self.master], [], [], min(left, 0.2))[0]:
                found += os.read(self.master, 65536).decode(errors="replace")
        self.seen += found

    def press(self, key: str) -> None:
        os.write(self.master, key.encode())

    def end(self) -> int:
        """Wait for its end; the terminal has to be as it was."""
        self.wait_for("\x1b[?1049l")
        status = self.process.wait(PATIENCE_SECONDS)
        assert termios.tcgetattr(self._slave) == self._before
        return status

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self._slave)


def test_on_a_terminal_with_a_connection_that_is_lost_for_a_while() -> None:
    admin = Admin()
    port = admin.server.server_port
    screen = Screen(port)
    try:
        screen.wait_for("\\x1b]0;x\\x07")
        screen.press("6")
        screen.wait_for("no-keyspace-walks")
        screen.press("\x1b[6~")
        screen.press("\x1bOB")
        admin.close()
        screen.wait_for("Connection refused; trying again")
        admin = Admin(port)
        screen.wait_for("details")
        screen.press("q")
        assert screen.end() == 0
        assert "\x1b]0" not in screen.seen, "no key reaches the terminal as it is"
    finally:
        screen.close()
        admin.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_the_terminal_as_it_was(number: int) -> None:
    admin = Admin()
    screen = Screen(admin.server.server_port)
    try:
        screen.wait_for("q quit")
        screen.process.send_signal(number)
        assert screen.end() == 0
    finally:
        screen.close()
        admin.close()
