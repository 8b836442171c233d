"""SIGUSR2: a successor takes over the sockets, and no client is refused; a successor that fails changes nothing."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.server.hot_restart import Inheritance, Successor
from tests.conftest import Fleet
from tests.engines import free_port
from tests.keyrail_process import command_line, environment
from tests.resp import PATIENCE_SECONDS, Address, Closed, Wire, eventually
from tests.server.running import STAMP, Running, serve


@pytest.fixture
def upstream(fleet: Fleet) -> str:
    return fleet.engine("valkey-9.1", "server").url


@contextlib.contextmanager
def taken_over(running: Running) -> Iterator[int]:
    """The process that serves after a SIGUSR2, ended with the block: its process id."""
    running.process.send_signal(signal.SIGUSR2)
    line = running.await_line(r"^keyrail: process (\d+) has taken over: stopping$")
    successor = int(re.findall(r"\d+", line)[-1])
    try:
        assert running.process.wait(3 * PATIENCE_SECONDS) == 0
        yield successor
    finally:
        os.kill(successor, signal.SIGTERM)


class Caller(threading.Thread):
    """Connects again and again, and asks: a few hundred times a second, which leaves the successor time to start."""

    def __init__(self, address: Address) -> None:
        super().__init__(daemon=True)
        self.address = address
        self.ended = threading.Event()
        self.answers = 0
        self.refused = 0

    def run(self) -> None:
        while not self.ended.is_set():
            try:
                with Wire(self.address) as wire:
                    self.answers += wire.ask("ECHO", "x") == b"$1\r\nx\r\n"
            except (ConnectionRefusedError, FileNotFoundError):
                self.refused += 1
            except (Closed, ConnectionResetError, BrokenPipeError):
                pass  # what the old one had accepted when it stopped
            self.ended.wait(0.002)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_successor_takes_the_sockets_over_and_nobody_is_refused(upstream: str, workers: str, tmp_path: Path) -> None:
    path = tmp_path / "keyrail.sock"
    arguments = ("--listen", "127.0.0.1:0", "--listen", f"unix://{path}", "--upstream", upstream)
    with serve(*arguments, "--workers", workers, "--drain", "1") as running:
        port = running.ready().ports()[0]
        callers = [Caller(Address(port=port)), Caller(Address(path=str(path)))]
        with running.wire() as before:
            assert before.ask("ECHO", "before") == b"$6\r\nbefore\r\n"
            for caller in callers:
                caller.start()
            with taken_over(running):
                assert running.http("/readyz")[0] == 200
                answers = [caller.answers for caller in callers]
                try:
                    eventually(lambda: all(c.answers > was for c, was in zip(callers, answers, strict=True)))
                finally:
                    for caller in callers:
                        caller.ended.set()
                for caller in callers:
                    caller.join()
                assert [caller.refused for caller in callers] == [0, 0]
        eventually(lambda: not path.exists())


def test_a_successor_that_cannot_start_changes_nothing(upstream: str, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("keyrail: 1\nrules: {}\n")
    with serve("--upstream", upstream, "--policy", str(policy), "--watch", "off") as running:
        running.ready()
        policy.write_text("keyrail: 1\nrulez: {}\n")
        running.process.send_signal(signal.SIGUSR2)
        running.await_line(r"^keyrail: the successor has ended with status 2 before it was ready: going on$")
        assert f"keyrail: {policy}:2: rulez: " in running.stderr, "why"
        with running.wire() as wire:
            assert wire.ask("PING") == b"+PONG\r\n"
        policy.write_text("keyrail: 1\nrules: {}\n")
        with taken_over(running):
            pass


def test_an_embedded_engine_is_not_left_to_a_successor() -> None:
    with serve("--embedded") as running:
        running.ready().process.send_signal(signal.SIGUSR2)
        running.await_line(r"^keyrail: no successor: the embedded engine and its data end with this process$")
        assert running.stop() == 0


def test_an_order_right_behind_the_ready_line_is_heeded() -> None:
    program = """
import os, signal, sys
from proxy.server import announcements

def notice(text, said=announcements.notice):
    said(text)
    if text.startswith("ready on"):
        os.kill(os.getpid(), signal.SIGUSR2)

announcements.notice = notice
from proxy.cli import main
sys.exit(main(["serve", "--embedded", "--listen", "127.0.0.1:0", "--admin", "off"]))
"""
    command = [command_line()[0], "-c", program]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment()
    ) as it:
        assert it.stderr is not None
        said = next(line for line in it.stderr if "no successor" in line)
        it.terminate()
        it.stderr.read()
    assert STAMP.sub("", said) == "keyrail: no successor: the embedded engine and its data end with this process\n"
    assert it.returncode == 0


def test_what_the_configuration_no_longer_names_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as kept, socket.create_server(("127.0.0.1", 0)) as left:
        ports = [each.getsockname()[1] for each in (kept, left)]
        told = f'{{"sockets": [["kept", [[{os.dup(kept.fileno())}]]], ["left", [[{os.dup(left.fileno())}]]]]}}'
    environment = {"KEYRAIL_INHERITED": told, "HOME": "/"}
    inheritance = Inheritance(environment)
    assert environment == {"HOME": "/"}
    assert inheritance.take("unknown") is None
    groups = inheritance.take("kept")
    assert groups is not None
    assert groups[0][0].getsockname()[1] == ports[0]
    assert inheritance.take("kept") is None
    inheritance.close_rest()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", ports[1]))
    groups[0][0].close()


def test_a_successor_takes_all_sockets_that_an_older_version_has_bound_for_its_workers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        copies = [os.dup(each.fileno()) for each in (first, second)]
        groups = Inheritance({"KEYRAIL_INHERITED": f'{{"sockets": [["it", [{copies}]]]}}'}).take("it")
        assert groups is not None
        assert [len(group) for group in groups] == [2]
        for each in groups[0]:
            each.close()


def test_without_a_predecessor_there_is_nothing_to_take_and_nobody_to_tell() -> None:
    inheritance = Inheritance({})
    assert inheritance.take(f"redis://127.0.0.1:{free_port()}") is None
    inheritance.tell_ready(0.0)
    inheritance.close_rest()


def test_a_program_that_is_not_there_is_no_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nothing/here")
    with pytest.raises(FileNotFoundError):
        Successor([], None, {})
