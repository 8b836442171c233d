"""After a restart of Redis, pooled clients that rely on its lost memory are closed, and no others.

Proves, for every command of the table with an effect that ends with the server process, and for each way to send it
(shared, in MULTI, behind WATCH, inline, streamed): its client is closed once Redis is another process. Clients that
used none of them stay. If the process is the same, as after a network fault, all stay. If INFO is not allowed, the loss
of all connections counts as a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from proxy.commands.table import STANDARD
from tests.engines import Engine, client_ids
from tests.failures.test_upstream_loss import works
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Closed, Wire, eventually, pack

pytestmark = pytest.mark.skipif(DIRECT, reason="behind a plain relay every client loses its connection")

NewEngine = Callable[..., Engine]
NewKeyrail = Callable[..., Keyrail]

SHA = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
COUNTING = {
    "EVAL": ["EVAL", "return 1", "0"],
    "EVAL_RO": ["EVAL_RO", "return 1", "0"],
    "EVALSHA": ["EVALSHA", SHA, "0"],
    "EVALSHA_RO": ["EVALSHA_RO", SHA, "0"],
    "FCALL": ["FCALL", "f", "0"],
    "FCALL_RO": ["FCALL_RO", "f", "0"],
    "FUNCTION|LOAD": ["FUNCTION", "LOAD", "#!lua name=l\n"],
    "FUNCTION|RESTORE": ["FUNCTION", "RESTORE", "x"],
    "SCRIPT|EXISTS": ["SCRIPT", "EXISTS", SHA],
    "SCRIPT|LOAD": ["SCRIPT", "LOAD", "return 1"],
    "CLIENT|TRACKING": ["CLIENT", "TRACKING", "ON"],
}
"""A command of each kind whose client counts on the memory of the server process."""

NOT_COUNTING = (
    ["GET", "k"],
    ["SET", "k", "v"],
    ["SCRIPT", "FLUSH"],
    ["SCRIPT", "KILL"],
    ["FUNCTION", "LIST"],
    ["SORT", "k"],
    ["CLIENT", "GETNAME"],
    ["WAIT", "0", "1"],
)


def shared(wire: Wire, command: list[str]) -> None:
    wire.ask(*command)


def in_multi(wire: Wire, command: list[str]) -> None:
    wire.send(pack("MULTI") + pack(*command) + pack("EXEC"))
    wire.frames(3)


def behind_watch(wire: Wire, command: list[str]) -> None:
    wire.send(pack("WATCH", "k") + pack(*command) + pack("UNWATCH"))
    wire.frames(3)


def inline(wire: Wire, command: list[str]) -> None:
    wire.send(" ".join(f'"{word}"' for word in command).replace("\n", "\\n").encode() + b"\r\n")
    wire.frame()


def streamed(wire: Wire, command: list[str]) -> None:
    wire.ask(*command, "x" * 1_100_000)


WAYS = (shared, in_multi, behind_watch, inline, streamed)


def stays(wire: Wire) -> bool:
    try:
        return wire.ask("ECHO", "here") == b"$4\r\nhere\r\n"
    except Closed:
        return False


def test_each_command_that_counts_on_the_process_is_tried() -> None:
    assert {spec.name for spec in STANDARD.specs if spec.process_bound} == set(COUNTING)


@pytest.fixture
def engine(new_engine: NewEngine) -> Engine:
    return new_engine(options={"save": '""'})


def test_clients_that_count_on_the_process_are_closed_when_it_is_another(
    engine: Engine, new_keyrail: NewKeyrail
) -> None:
    keyrail = new_keyrail(engine.url)
    counting = {(name, way.__name__): keyrail.wire() for name in COUNTING for way in WAYS}
    for name, way in ((name, way) for name in COUNTING for way in WAYS):
        way(counting[name, way.__name__], COUNTING[name])
    others = [keyrail.wire() for _ in NOT_COUNTING]
    for wire, command in zip(others, NOT_COUNTING, strict=True):
        wire.ask(*command)
    # Those that hold no connection of their own are the ones that a restart leaves in doubt.
    held = [kept for kept, wire in counting.items() if kept[0] != "CLIENT|TRACKING" and not stays(wire)]
    assert not held
    engine.kill()
    engine.start()
    eventually(lambda: works(keyrail))
    kept = [kept for kept, wire in counting.items() if stays(wire)]
    assert not kept, "these clients still believe that Redis knows their scripts"
    assert [command for wire, command in zip(others, NOT_COUNTING, strict=True) if not stays(wire)] == []
    eventually(lambda: keyrail.metric("keyrail_client_closes_total", cause="redis_restarted") > 0)
    for wire in (*counting.values(), *others):
        wire.close()


def lose_all(engine: Engine, keyrail: Keyrail) -> None:
    """All connections between Keyrail and Redis are cut, and the server process is the same."""
    with engine.wire() as direct:
        assert direct.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") != b":0\r\n"
        eventually(lambda: len(client_ids(direct)) > 1)
    eventually(lambda: works(keyrail))


def relying(keyrail: Keyrail) -> Iterator[tuple[bool, Wire]]:
    """Clients, and whether they count on the process."""
    for command in (["EVAL", "return 1", "0"], ["GET", "k"]):
        wire = keyrail.wire()
        wire.ask(*command)
        yield command[0] == "EVAL", wire


def test_the_same_process_closes_nobody(engine: Engine, new_keyrail: NewKeyrail) -> None:
    keyrail = new_keyrail(engine.url)
    clients = list(relying(keyrail))
    lose_all(engine, keyrail)
    assert [stays(wire) for _, wire in clients] == [True, True]


def test_without_info_the_loss_of_all_connections_counts_as_a_restart(engine: Engine, new_keyrail: NewKeyrail) -> None:
    engine.do("ACL", "SETUSER", "default", "-info")
    keyrail = new_keyrail(engine.url)
    assert "Keyrail does not know a restarted Redis by its run_id" in keyrail.http("/metrics")[1]
    clients = list(relying(keyrail))
    with keyrail.wire() as other:
        assert other.ask("WATCH", "k") == b"+OK\r\n"
        assert [stays(wire) for _, wire in clients] == [True, True], "one more connection is no restart"
    lose_all(engine, keyrail)
    assert [stays(wire) for _, wire in clients] == [not counts for counts, _ in clients]
