"""The intake loses and duplicates no byte: rewritten commands, commands that arrive in many reads, streamed values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.commands.table import STANDARD
from proxy.hotpath.intake.intake import TAKEN, WAIT, WAITING
from proxy.hotpath.plan.appending import Appending
from proxy.hotpath.plan.name_checks import NameProgram
from proxy.hotpath.plan.plan import READS, WRITES, Plan
from proxy.hotpath.plan.request_edit import RequestEdit
from proxy.wire.request import ARGUMENT_BYTES, Request
from tests.hotpath.gathering import ANY_TTL, LETTERS, Client, command_id, cuts, joined, outcome, pack

# Rewritten commands within runs


DENIED = b"-DENIED keyrail/rule: no\r\n"


def rewriting() -> Plan:
    plan = Plan(len(STANDARD.specs))
    plan.edit(command_id("SET"), RequestEdit(0, appending=Appending(3, 2, [ANY_TTL], [b"EX", b"KEEPTTL"])))
    plan.edit(command_id("DEL"), RequestEdit(0, b"UNLINK"))
    plan.edit(command_id("GETSET"), RequestEdit(0, b"SET", Appending(3, 3, [ANY_TTL + pack("GET")[4:]], [])))
    plan.judge_always(command_id("INCR"))
    plan.refuse(command_id("KEYS"), DENIED)
    plan.refuse(command_id("GETDEL"), DENIED)
    plan.programs.append(NameProgram(LETTERS, 1, 20, ord(":"), 2, 3, READS | WRITES, False))
    plan.check_names(command_id("GET"), 0)
    plan.count_keys(command_id("GET"))
    plan.count_keys(command_id("DEL"))
    plan.count_keys(command_id("GETDEL"))
    return plan


REWRITES: dict[bytes, bytes | None] = {
    pack("GET", "a:b"): pack("GET", "a:b"),
    pack("GET", "nosegment"): None,
    pack("SET", "k", "v"): pack("SET", "k", "v", "EX", "300"),
    pack("set", "k", ""): pack("set", "k", "", "EX", "300"),
    pack("SET", "k", "v", "ex", "1"): pack("SET", "k", "v", "ex", "1"),
    pack("SET", "k", "v", "NX"): None,
    pack("SET", "k"): None,
    pack("DEL", "a:b", "c:d"): pack("UNLINK", "a:b", "c:d"),
    pack("dEl", "x" * 100): pack("UNLINK", "x" * 100),
    pack("DEL"): pack("DEL"),
    pack("getset", "k", "v"): pack("SET", "k", "v", "EX", "300", "GET"),
    pack("GETSET", "k"): None,
    pack("INCR", "k"): None,
    pack("HGET", "h", "f"): pack("HGET", "h", "f"),
    pack("KEYS", "*"): DENIED,
    pack("getdel", "k"): DENIED,
    pack("GETDEL"): DENIED,
}


def event_of(sent: bytes) -> tuple[Any, ...]:
    becomes = REWRITES[sent]
    if becomes is None:
        return ("special", sent)
    return ("refused", DENIED) if becomes is DENIED else ("run", becomes, 1)


@pytest.mark.parametrize("sent", REWRITES)
def test_a_rewritten_command_stays_in_its_run(sent: bytes) -> None:
    around = pack("HGET", "h", "f")
    for pieces in cuts(around + sent + around):
        expected = joined([("run", around, 1), event_of(sent), ("run", around, 1)])
        assert outcome(Client(rewriting()), pieces) == expected


@pytest.mark.parametrize("direct", [True, False])
def test_what_is_refused_whatever_it_says_is_answered_in_its_place(direct: bool) -> None:
    client = Client(rewriting())
    client.intake.direct = direct
    client.intake.receive(pack("KEYS", "*") * 2)
    assert client.log == ([("refused", DENIED)] if direct else [("special", pack("KEYS", "*"))]) * 2
    assert client.intake.config.plan.changed[command_id("KEYS")] == 2 * direct


def test_a_client_that_does_not_take_its_refusals_is_not_read_on() -> None:
    class Full(Client):
        def refuse(self, error: bytes) -> None:
            super().refuse(error)
            self.sender.full = True

    client = Full(rewriting())
    client.intake.receive(pack("KEYS", "*") * 2)
    assert (client.log, client.intake.unread(), client.is_paused()) == (
        [("refused", DENIED)],
        len(pack("KEYS", "*")),
        True,
    )


programs = st.lists(st.sampled_from([*REWRITES, pack("CLIENT", "ID"), b"PING\r\n", b"*0\r\n", b"\n"]), max_size=25)


@settings(max_examples=150)
@given(programs, st.lists(st.integers(1, 60), min_size=1, max_size=10), st.integers(1, 8), st.lists(st.booleans()))
def test_no_byte_is_lost_or_doubled(program: list[bytes], sizes: list[int], window: int, waits: list[bool]) -> None:
    client = Client(rewriting(), window=window)
    client.answers = [WAIT if wait else TAKEN for wait in waits]
    stream = b"".join(program)
    position = turn = 0
    while position < len(stream):
        size = sizes[turn % len(sizes)]
        client.intake.receive(stream[position : position + size])
        position += size
        turn += 1
        if turn % 2:
            client.go_on()
            client.pay(client.sender.pending_replies)
        assert client.sender.pending_replies <= window
    while client.intake.phase == WAITING or client.sender.stalled:
        client.go_on()
        client.pay(client.sender.pending_replies)
    expected: list[Any] = []
    for sent in program:
        if sent == b"PING\r\n":
            expected.append(("inline", [b"PING"], 6))
        elif sent in REWRITES:
            expected.append(event_of(sent))
        elif sent.startswith(b"*") and sent != b"*0\r\n":
            expected.append(("special", sent))
    assert joined(client.log) == joined(expected)
    client.fake_upstream.flush()
    assert b"".join(client.fake_upstream.written) == b"".join(event[1] for event in client.log if event[0] == "run")
    assert (client.intake.unread(), client.is_paused()) == (0, False)
    counted = sum(
        {pack("GET", "a:b"): 1, pack("DEL", "a:b", "c:d"): 2, pack("dEl", "x" * 100): 1}.get(c, 0) for c in program
    )
    assert client.counters.harvest(0).total == counted


# Commands that arrive in many reads


def test_a_command_of_many_arguments_is_put_together() -> None:
    many = pack("MSET", *(f"{i:05d}" for i in range(20_000)))
    data = pack("GET", "a") + many + pack("GET", "b")
    for size in (1000, 17_000, 70_001, len(data)):
        client = Client()
        pieces = [data[i : i + size] for i in range(0, len(data), size)]
        assert outcome(client, pieces) == [("run", data, 3)]
        assert (client.intake.unfinished, client.intake.pending) == (None, None)
        if size == 17_000:
            assert client.sizes
            assert max(client.sizes) <= len(many) + size + ARGUMENT_BYTES * 20_001


def test_putting_together_can_be_held_and_goes_on() -> None:
    many = pack("MSET", *("x" * 1000 for _ in range(40)))
    client = Client()
    client.intake.receive(many[:20_000])
    assert client.intake.unread() == 20_000
    client.sender.full = True
    client.intake.receive(many[20_000:30_000])
    assert client.is_paused()
    client.sender.full = False
    client.intake.resume()
    assert not client.is_paused()
    client.sender.full = True
    client.intake.receive(many[30_000:] + pack("GET", "a"))
    assert client.is_paused()
    client.sender.full = False
    client.intake.resume()
    assert joined(client.log) == [("run", many + pack("GET", "a"), 2)]
    assert not client.is_paused()


def test_a_command_that_was_put_together_may_have_to_wait() -> None:
    many = pack("CLIENT", *("x" * 1000 for _ in range(40)))
    client = Client()
    client.answers = [WAIT]
    client.intake.receive(many[:20_000])
    client.intake.receive(many[20_000:])
    client.intake.receive(pack("GET", "a"))
    assert (client.log, client.is_paused()) == ([], True)
    client.go_on()
    assert client.log == [("special", many), ("run", pack("GET", "a"), 1)]


# Large values


def test_a_large_value_is_streamed_wherever_it_is_cut() -> None:
    large = pack("MSET", "a", "1", "b", "v" * 60)
    before, behind = pack("GET", "a"), pack("GET", "b")
    stream = before + large + behind
    head = len(before) + large.index(b"vvv")
    for cut in range(1, len(stream)):
        client = Client(large=40)
        client.intake.receive(stream[:cut])
        client.intake.receive(stream[cut:])
        if cut < head or cut >= len(before) + len(large):
            assert joined(client.log) == [("run", stream, 3)]
        else:
            assert client.log == [
                ("run", before, 1),
                ("large", [b"MSET", b"a", b"1", b"b"], 60),
                ("streamed", large),
                ("run", behind, 1),
            ]


def test_a_large_value_behind_a_long_argument_is_streamed_too() -> None:
    large = pack("MSET", "a", "x" * 30_000, "b", "y" * 200_000)
    client = Client(large=100_000)
    for i in range(0, len(large), 20_000):
        client.intake.receive(large[i : i + 20_000])
    assert client.log == [("large", [b"MSET", b"a", b"x" * 30_000, b"b"], 200_000), ("streamed", large)]
    assert (client.intake.unfinished, client.intake.pending) == (None, None)


def test_a_large_value_can_be_collected_all_the_same() -> None:
    large = pack("CLIENT", "x" * 100)

    class Collecting(Client):
        def handle_large(self, data: bytes, request: Request) -> int:
            self.intake.collect(data[request.start :])
            return TAKEN

    for cut in range(1, len(large)):
        client = Collecting(large=40)
        client.intake.receive(pack("GET", "a") + large[:cut])
        client.intake.receive(large[cut:] + pack("GET", "b"))
        assert joined(client.log) == [("run", pack("GET", "a"), 1), ("special", large), ("run", pack("GET", "b"), 1)]
        client.intake.receive(pack("MSET", "a", "v" * 100)[:-5])
        assert client.intake.unread() > 0
