"""On every engine and in both protocols, a rewritten command has the reply of the client's own command, byte for byte,
and leaves the same data behind, except for the TTL."""

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.policy.load import load_policy
from proxy.policy_yaml.shipped import packaged
from proxy.rules.verdict import Rewrite
from tests.conftest import Fleet
from tests.policy.given import compile_policy
from tests.resp import Wire, words
from tests.rules.given import context

POLICY = compile_policy(load_policy(packaged("bench")), STANDARD)

BEFORE = {
    "nothing": "",
    "a string": "SET {k}:1 old",
    "a string with a TTL": "SET {k}:1 old EX 9999",
    "a hash": "HSET {k}:1 f v",
}
COMMANDS = (
    "SET {k}:1 new",
    "SET {k}:1 new NX",
    "SET {k}:1 new XX",
    "SET {k}:1 new GET",
    "SET {k}:1 new XX GET",
    "SET {k}:1 new NX XX",
    "SETNX {k}:1 new",
    "GETSET {k}:1 new",
    "DEL {k}:1",
    "DEL {k}:1 {k}:2 {k}:1",
)


class State:
    """The state that a command left behind."""

    def __init__(self, wire: Wire) -> None:
        self.kind = wire.ask("TYPE", "{k}:1")
        self.value = wire.ask("GET", "{k}:1")
        self.ttl = int(wire.ask("TTL", "{k}:1")[1:])


def run(wire: Wire, before: str, argv: list[bytes], *, in_transaction: bool) -> tuple[bytes, State]:
    wire.ask("FLUSHALL")
    if before:
        wire.ask(*words(before))
    if not in_transaction:
        return wire.ask(*argv), State(wire)
    assert wire.ask("MULTI") == b"+OK\r\n"
    assert wire.ask(*argv) == b"+QUEUED\r\n"
    reply = wire.ask("EXEC")
    assert reply.startswith(b"*1\r\n")
    return reply.removeprefix(b"*1\r\n"), State(wire)


@pytest.mark.parametrize("in_transaction", [False, True], ids=["alone", "in MULTI"])
@pytest.mark.parametrize("line", COMMANDS)
def test_a_rewritten_command_answers_as_the_original(
    fleet: Fleet, engine_name: str, protocol: int, line: str, in_transaction: bool
) -> None:
    original = words(line)
    verdict = POLICY.judge(Command(STANDARD, original), context()).verdict
    assert isinstance(verdict, Rewrite)
    with Wire(fleet.engine(engine_name).address) as wire:
        wire.ask("HELLO", protocol)
        for before in BEFORE.values():
            wanted, left = run(wire, before, original, in_transaction=in_transaction)
            reply, state = run(wire, before, verdict.argv, in_transaction=in_transaction)
            assert (verdict.edit(reply) if verdict.edit else reply) == wanted, before
            assert (state.kind, state.value) == (left.kind, left.value)
            if state.value.endswith(b"new\r\n"):
                assert state.ttl in (299, 300)
            else:
                assert state.ttl in (left.ttl, left.ttl - 1)


@pytest.mark.parametrize("line", ["SETNX {k}:1 new", "GETSET {k}:1 new", "SET {k}:1 new", "DEL {k}:1"])
def test_an_error_stays_the_error_of_the_engine(fleet: Fleet, engine_name: str, protocol: int, line: str) -> None:
    """Out of memory: the same text for the command and for what it became (DEL frees memory, and is let through)."""
    verdict = POLICY.judge(Command(STANDARD, words(line)), context()).verdict
    assert isinstance(verdict, Rewrite)
    with Wire(fleet.engine(engine_name, "full").address) as wire:
        wire.ask("HELLO", protocol)
        wire.ask("CONFIG", "SET", "maxmemory", "1")
        try:
            wanted = wire.ask(*words(line))
            reply = wire.ask(*verdict.argv)
        finally:
            wire.ask("CONFIG", "SET", "maxmemory", "0")
        assert (verdict.edit(reply) if verdict.edit else reply) == wanted
        assert wanted.startswith(b"-OOM") or line.startswith("DEL")
