"""Every line on standard error has a time and a level, from any process, as text and as JSON."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.engines import Engine
from tests.resp import Closed
from tests.server.running import serve


def test_every_line_is_json_with_a_time_and_a_level(new_engine: Callable[..., Engine]) -> None:
    options = ("--log-format", "json", "--max-clients", "1")
    with serve("--upstream", new_engine().url, "--policy", "none", *options) as running:
        running.await_line(r'"message": "ready on redis:')
        port = int(running.stderr.partition("127.0.0.1:")[2].partition(" ")[0])
        with running.wire(port) as first:
            assert first.ask("PING") == b"+PONG\r\n"
            with running.wire(port) as second:
                assert second.frame().startswith(b"-ERR max")
            running.await_line(r'"level": "warning", "message": "refusing clients')  # a worker's
            os.kill(running.workers()[0], signal.SIGKILL)
            try:
                first.frame()
            except Closed:
                pass
        running.await_line(r'"level": "error", "message": "worker 0 .* replacing it"')  # the supervisor's
        for line in running.stderr.splitlines():
            said = json.loads(line)
            assert datetime.now(UTC) - datetime.fromisoformat(said["time"]) < timedelta(hours=1)
            assert said["level"] in {"info", "warning", "error"}


def test_the_level_says_what_needs_somebody(new_engine: Callable[..., Engine], tmp_path: Path) -> None:
    engine, policy = new_engine(), tmp_path / "policy.yaml"
    policy.write_text("keyrail: 1\nrules: {}\n")
    options = ("--policy", str(policy), "--watch", "off")
    with serve("--upstream", engine.url, *options) as running:
        running.ready()
        policy.write_text("keyrail: 1\nrulez: {}\n")
        os.kill(running.process.pid, signal.SIGHUP)
        running.await_line("^keyrail: policies not reloaded")
        assert running.http("/policy/kill-switch", {"switch": "on", "for": "1m", "because": "a drill"})[0] == 200
        engine.kill()
        running.await_line("^keyrail: route default: not ready: ")
        engine.start()
        running.await_line("^keyrail: route default: the upstream answers")
    wanted = {
        "ready on": "info",
        "policies not reloaded": "error",
        "the kill switch is on": "warning",
        "route default: not ready": "error",
        "route default: the upstream answers": "info",
    }
    lines = [line.split(" ", 3)[1:] for line in running.stamped]
    said = {begin: level for begin in wanted for level, _, text in lines if text.startswith(begin)}
    assert said == wanted


def test_every_line_of_text_begins_with_a_time_and_a_level(new_engine: Callable[..., Engine]) -> None:
    options = ("--max-clients", "1", "--policy", "none", "--workers", "1")
    with serve("--upstream", new_engine().url, *options) as running:
        with running.ready().wire() as first, running.wire() as second:
            assert first.ask("PING") == b"+PONG\r\n"
            assert second.frame().startswith(b"-ERR max")
            running.await_line(r"^keyrail: refusing clients")  # a worker's
        os.kill(running.process.pid, signal.SIGHUP)
        running.await_line(r"^keyrail: policies are the same")  # the supervisor's
        levels = {}
        for line in running.stamped:
            time, level, _, message = line.split(" ", 3)
            assert datetime.now(UTC) - datetime.fromisoformat(time) < timedelta(hours=1)
            levels[message.split()[0]] = level
        assert (levels["refusing"], levels["policies"]) == ("warning", "info")


def test_why_it_does_not_start_is_an_answer_to_who_has_typed_the_command() -> None:
    with serve("--upstream", "redis://127.0.0.1:1", "--policy", "no-such-file.yaml") as running:
        assert running.exit()[0] == 2
        assert [line.partition(":")[0] for line in running.stamped] == ["keyrail"]


def test_the_level_changes_at_run_time_in_all_processes(new_engine: Callable[..., Engine]) -> None:
    with serve("--upstream", new_engine().url, "--policy", "none") as running:
        with running.ready().wire() as wire:
            assert wire.ask("PING") == b"+PONG\r\n"
        assert running.http("/log_level", {"level": "loud"}) == (
            400,
            '{"error": "level: expected debug, info, warning or error, got \'loud\'"}',
        )
        assert running.http("/log_level", {"level": "debug"}) == (200, '{"level": "debug"}')
        (worker,) = running.workers()
        os.kill(worker, signal.SIGKILL)
        running.await_line("replacing it")
        running.await_http("/readyz", 200)
        with running.wire() as wire:
            assert wire.ask("PING") == b"+PONG\r\n"
        running.await_line(r" debug keyrail: client 127\.0\.0\.1:\d+ has left 127\.0\.0\.1:\d+: client$")
        assert running.stderr.count("has connected") == 1, "the replacement has the level, too"
        assert running.http("/log_level", {"level": "error"}) == (200, '{"level": "error"}')
        assert running.json("/log_level") == {"level": "error"}
        assert running.http("/policy/kill-switch", {"switch": "on", "because": "a drill"})[0] == 200
        with running.wire() as wire:
            assert wire.ask("PING") == b"+PONG\r\n"
        assert running.stop() == 0
        assert running.stderr.count("has connected") == 1
        assert "kill switch" not in running.stderr
