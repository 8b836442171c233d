"""The intake gathers runs, stops where somebody must decide, and loses or doubles no byte however its bytes are cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hiredis import pack_command
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.commands.table import STANDARD, Lane, State
from proxy.hotpath.counters import Counters
from proxy.hotpath.intake import ENDED, TAKEN, WAIT, Intake, Terms
from proxy.hotpath.ledger import Creditor, Ledger
from proxy.hotpath.plan import READS, WRITES, Plan
from proxy.wire import request as wire
from proxy.wire.request import Limits, Request

LETTERS = bytes(int(chr(byte).isalnum() or byte == ord(":")) for byte in range(256))
ANY_TTL = b"$2\r\nEX\r\n$3\r\n300\r\n"
OK = b"+OK\r\n"
POOLED = bytes(spec.state is State.POOL and spec.lane is Lane.FAST for spec in STANDARD.specs)


def pack(*words: bytes | str) -> bytes:
    packed: bytes = pack_command(words)
    return packed


def command_id(name: str) -> int:
    spec = STANDARD.find(name)
    assert spec is not None
    return spec.id


class Upstream(Ledger):
    """A ledger that notes each run."""

    def __init__(self, log: list[Any]) -> None:
        super().__init__()
        self.log = log
        self.usable = True
        self.written: list[bytes] = []
        self.write = self.written.append
        self.schedule = lambda: None

    def submit(self, creditor: Creditor, chunk: bytes, count: int) -> None:
        self.log.append(("run", chunk, count))
        super().submit(creditor, chunk, count)


class Client(Intake):
    """An intake whose session is the test: `answers` are what it says to each special command in turn, then TAKEN."""

    def __init__(self, plan: Plan | None = None, window: int = 1000, large: int = 1 << 20) -> None:
        self.counters = Counters(sets=16)
        terms = Terms(
            Plan(len(STANDARD.specs)) if plan is None else plan,
            STANDARD.lookup,
            STANDARD.keys,
            self.counters,
            Request(),
            POOLED,
            POOLED,
            window,
        )
        super().__init__(terms, Limits(1 << 20, 1 << 29, large))
        self.log: list[Any] = []
        self.upstream = Upstream(self.log)
        self.ledger = self.upstream
        self.direct = True
        self.write = lambda _: None
        self.answers: list[int] = []
        self.paused = False
        self.sizes: list[int] = []

    def answer(self) -> int:
        return self.answers.pop(0) if self.answers else TAKEN

    def handle(self, command_id: int, data: bytes, request: Request) -> int:
        answer = self.answer()
        if answer == WAIT:
            self.halted = True
        else:
            self.log.append(("special", data[request.start : request.end]))
        return answer

    def handle_inline(self, words: list[bytes], size: int) -> int:
        answer = self.answer()
        if answer == WAIT:
            self.halted = True
        else:
            self.log.append(("inline", words, size))
        return answer

    def handle_large(self, data: bytes, request: Request) -> int:
        self.log.append(("large", request.arguments(), request.bulk))
        self.stream = Stream(self, request.position - request.start + request.bulk + 2)
        self.stream.receive(data[request.start :])
        return TAKEN

    def malformed(self, request: Request) -> None:
        self.log.append(("malformed", request.error))

    def assembling(self, size: int) -> None:
        self.sizes.append(size)

    def hold(self) -> None:
        self.paused = True

    def drained(self) -> None:
        self.paused = False

    def pay(self, replies: int) -> None:
        self.upstream.receive(OK * replies)

    def go_on(self) -> None:
        self.halted = False
        self.resume()


class Stream:
    """Takes the bytes of one large request, and gives back what follows."""

    def __init__(self, client: Client, size: int) -> None:
        self.client = client
        self.left = size
        self.taken = b""

    def receive(self, data: bytes) -> None:
        self.taken += data[: self.left]
        following = data[self.left :]
        self.left -= min(len(data), self.left)
        if self.left == 0:
            self.client.stream = None
            self.client.log.append(("streamed", self.taken))
            if following:
                self.client.receive(following)


def cuts(data: bytes) -> Iterator[list[bytes]]:
    yield [data]
    yield [data[i : i + 1] for i in range(len(data))]
    for i in range(1, len(data)):
        yield [data[:i], data[i:]]


def joined(log: list[Any]) -> list[Any]:
    """The log with neighbouring runs made one: how reads cut them does not matter."""
    result: list[Any] = []
    for event in log:
        if event[0] == "run" and result and result[-1][0] == "run":
            _, chunk, count = result.pop()
            result.append(("run", chunk + event[1], count + event[2]))
        else:
            result.append(event)
    return result


def outcome(client: Client, pieces: list[bytes]) -> list[Any]:
    """What becomes of bytes that come in pieces, when every reply is paid as soon as the client is held."""
    for piece in pieces:
        client.receive(piece)
        while client.stalled:
            client.pay(client.owed)
    return joined(client.log)


def test_commands_that_need_nobody_are_one_run_of_the_clients_own_bytes() -> None:
    client = Client()
    data = pack("GET", "a") + pack("set", "b", "1") + pack("INCR", "c")
    client.receive(data)
    assert client.log == [("run", data, 3)]
    assert client.log[0][1] is data
    assert (client.owed, client.forwarded, client.pending) == (3, 3, None)


def test_a_run_ends_where_somebody_must_decide_and_goes_on_behind_it() -> None:
    first, special, last = pack("GET", "a") * 2, pack("CLIENT", "ID"), pack("GET", "b")
    for pieces in cuts(first + special + last):
        client = Client()
        assert outcome(client, pieces) == [("run", first, 2), ("special", special), ("run", last, 1)]
        assert (client.pending, client.assembly, client.paused) == (None, None, False)


def test_blank_lines_and_empty_arrays_are_owed_nothing() -> None:
    data = b"\r\n" + pack("GET", "a") + b"*0\r\n*-1\r\n\n" + pack("GET", "b") + b"*-7\r\n"
    for pieces in cuts(data):
        client = Client()
        assert outcome(client, pieces) == [("run", pack("GET", "a") + pack("GET", "b"), 2)]
        assert (client.owed, client.pending) == (2, None)


def test_inline_commands_come_as_words() -> None:
    data = pack("GET", "a") + b'SET  k "a b"\r\n' + pack("GET", "b") + b"PING\n"
    for pieces in cuts(data):
        assert outcome(Client(), pieces) == [
            ("run", pack("GET", "a"), 1),
            ("inline", [b"SET", b"k", b"a b"], 14),
            ("run", pack("GET", "b"), 1),
            ("inline", [b"PING"], 5),
        ]


@pytest.mark.parametrize(
    ("odd", "error"),
    [
        (b"*x\r\n", wire.INVALID_MULTIBULK_LENGTH),
        (b"*1\r\n:1\r\n", wire.EXPECTED_DOLLAR),
        (b'SET k "a\r\n', wire.UNBALANCED_QUOTES),
    ],
)
def test_nothing_behind_a_protocol_error_is_read(odd: bytes, error: int) -> None:
    for pieces in cuts(pack("GET", "a") + odd + pack("GET", "b")):
        client = Client()
        assert outcome(client, pieces) == [("run", pack("GET", "a"), 1), ("malformed", error)]
        client.resume()
        client.receive(pack("GET", "c"))
        assert len(joined(client.log)) == 2


def test_nothing_behind_an_ending_command_is_read() -> None:
    client = Client()
    client.answers = [ENDED]
    client.receive(pack("QUIT") + pack("GET", "a"))
    client.receive(pack("GET", "b"))
    client.resume()
    assert client.log == [("special", pack("QUIT"))]


def test_a_client_that_has_gone_is_not_read() -> None:
    client = Client()
    client.gone = True
    client.receive(pack("GET", "a"))
    client.resume()
    assert client.log == []


def test_what_must_wait_comes_again_with_all_behind_it() -> None:
    data = pack("GET", "a") + pack("CLIENT", "ID") + pack("GET", "b")
    for pieces in cuts(data):
        client = Client()
        client.answers = [WAIT, WAIT]
        for piece in pieces:
            client.receive(piece)
        assert joined(client.log) == [("run", pack("GET", "a"), 1)]
        assert client.paused
        assert client.unread() == len(pack("CLIENT", "ID") + pack("GET", "b"))
        client.go_on()
        assert client.halted
        client.go_on()
        assert joined(client.log)[1:] == [("special", pack("CLIENT", "ID")), ("run", pack("GET", "b"), 1)]
        assert not client.paused


def test_a_plain_command_that_waits_is_brought_again_to_who_made_it_wait() -> None:
    client = Client()
    client.upstream.usable = False
    client.answers = [WAIT]
    client.receive(pack("GET", "a") + pack("GET", "b"))
    client.upstream.usable = True
    client.go_on()
    assert client.log == [("special", pack("GET", "a")), ("run", pack("GET", "b"), 1)]


@pytest.mark.parametrize("direct", [True, False])
def test_an_upstream_that_takes_nothing_gets_no_runs(direct: bool) -> None:
    client = Client()
    client.direct = direct
    client.upstream.usable = not direct
    client.receive(pack("GET", "a"))
    client.ledger = None
    client.receive(pack("GET", "b"))
    assert client.log == [("special", pack("GET", "a")), ("special", pack("GET", "b"))]


# Windows


def test_no_more_than_the_window_is_owed() -> None:
    client = Client(window=4)
    data = [pack("GET", str(i)) for i in range(9)]
    client.receive(b"".join(data))
    assert (client.owed, client.stalled, client.paused) == (4, True, True)
    client.receive(pack("GET", "late"))
    assert client.owed == 4
    client.pay(1)
    assert (client.owed, client.stalled) == (3, True)
    client.pay(1)
    assert (client.owed, client.stalled) == (4, True)
    client.pay(4)
    client.pay(2)
    assert (client.owed, client.stalled, client.paused) == (2, False, False)
    assert joined(client.log) == [("run", b"".join(data) + pack("GET", "late"), 10)]


def test_the_beginning_of_a_command_does_not_keep_a_client_paused() -> None:
    whole = pack("GET", "0") * 6
    for cut in range(1, len(pack("GET", "0"))):
        client = Client(window=2)
        client.receive(whole + pack("GET", "1")[:cut])
        while client.owed:
            client.pay(1)
        assert not client.paused
        client.receive(pack("GET", "1")[cut:])
        assert joined(client.log) == [("run", whole + pack("GET", "1"), 7)]


def test_a_client_that_does_not_take_its_replies_is_not_read_on() -> None:
    client = Client()
    client.full = True
    client.receive(pack("GET", "a") + b"*2\r\n")
    assert (client.log, client.paused) == ([], True)
    client.full = False
    client.resume()
    assert client.log == [("run", pack("GET", "a"), 1)]
    assert not client.paused


def test_a_window_is_counted_before_a_command_is_rewritten_or_counted() -> None:
    plan = Plan(len(STANDARD.specs))
    plan.count_keys(command_id("GET"))
    client = Client(plan, window=2)
    client.receive(pack("GET", "a") * 5)
    while client.owed:
        client.pay(1)
    assert client.counters.harvest(10).total == 5


# Rewritten commands within runs


def rewriting() -> Plan:
    plan = Plan(len(STANDARD.specs))
    plan.append(command_id("SET"), 3, 2, [ANY_TTL], [b"EX", b"KEEPTTL"])
    plan.swap_name(command_id("DEL"), b"UNLINK")
    plan.judge_always(command_id("INCR"))
    names = plan.add_names(LETTERS, 1, 20, ord(":"), 2, 3, READS | WRITES, False)
    plan.check_names(command_id("GET"), names)
    plan.count_keys(command_id("GET"))
    plan.count_keys(command_id("DEL"))
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
    pack("INCR", "k"): None,
    pack("HGET", "h", "f"): pack("HGET", "h", "f"),
}


@pytest.mark.parametrize("sent", REWRITES)
def test_a_rewritten_command_stays_in_its_run(sent: bytes) -> None:
    around = pack("HGET", "h", "f")
    for pieces in cuts(around + sent + around):
        becomes = REWRITES[sent]
        expected = (
            [("run", around, 1), ("special", sent), ("run", around, 1)]
            if becomes is None
            else [("run", around + becomes + around, 3)]
        )
        assert outcome(Client(rewriting()), pieces) == expected


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
        client.receive(stream[position : position + size])
        position += size
        turn += 1
        if turn % 2:
            client.go_on()
            client.pay(client.owed)
        assert client.owed <= window
    while client.halted or client.stalled:
        client.go_on()
        client.pay(client.owed)
    expected: list[Any] = []
    for sent in program:
        if sent == b"PING\r\n":
            expected.append(("inline", [b"PING"], 6))
        elif sent in REWRITES and (becomes := REWRITES[sent]) is not None:
            expected.append(("run", becomes, 1))
        elif sent.startswith(b"*") and sent != b"*0\r\n":
            expected.append(("special", sent))
    assert joined(client.log) == joined(expected)
    client.upstream.flush()
    assert b"".join(client.upstream.written) == b"".join(event[1] for event in client.log if event[0] == "run")
    assert (client.unread(), client.paused) == (0, False)
    counted = sum({pack("GET", "a:b"): 1, pack("DEL", "a:b", "c:d"): 2, pack("dEl", "x" * 100): 1}.get(c, 0) for c in program)
    assert client.counters.harvest(0).total == counted


# Commands that arrive in many reads


def test_a_command_of_many_arguments_is_put_together() -> None:
    many = pack("MSET", *(f"{i:05d}" for i in range(20_000)))
    data = pack("GET", "a") + many + pack("GET", "b")
    for size in (1000, 17_000, 70_001, len(data)):
        client = Client()
        pieces = [data[i : i + size] for i in range(0, len(data), size)]
        assert outcome(client, pieces) == [("run", data, 3)]
        assert (client.assembly, client.partial, client.pending) == (None, None, None)
        if size == 17_000:
            assert client.sizes
            assert max(client.sizes) <= len(many) + size


def test_putting_together_can_be_held_and_goes_on() -> None:
    many = pack("MSET", *("x" * 1000 for _ in range(40)))
    client = Client()
    client.receive(many[:20_000])
    assert client.unread() == 20_000
    client.full = True
    client.receive(many[20_000:30_000])
    assert client.paused
    client.full = False
    client.resume()
    assert not client.paused
    client.full = True
    client.receive(many[30_000:] + pack("GET", "a"))
    assert client.paused
    client.full = False
    client.resume()
    assert joined(client.log) == [("run", many + pack("GET", "a"), 2)]
    assert not client.paused


def test_a_command_that_was_put_together_may_have_to_wait() -> None:
    many = pack("CLIENT", *("x" * 1000 for _ in range(40)))
    client = Client()
    client.answers = [WAIT]
    client.receive(many[:20_000])
    client.receive(many[20_000:])
    client.receive(pack("GET", "a"))
    assert (client.log, client.paused) == ([], True)
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
        client.receive(stream[:cut])
        client.receive(stream[cut:])
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
        client.receive(large[i : i + 20_000])
    assert client.log == [("large", [b"MSET", b"a", b"x" * 30_000, b"b"], 200_000), ("streamed", large)]
    assert (client.assembly, client.pending) == (None, None)


def test_a_large_value_can_be_collected_all_the_same() -> None:
    large = pack("CLIENT", "x" * 100)

    class Collecting(Client):
        def handle_large(self, data: bytes, request: Request) -> int:
            self.collect(data[request.start :])
            return TAKEN

    for cut in range(1, len(large)):
        client = Collecting(large=40)
        client.receive(pack("GET", "a") + large[:cut])
        client.receive(large[cut:] + pack("GET", "b"))
        assert joined(client.log) == [("run", pack("GET", "a"), 1), ("special", large), ("run", pack("GET", "b"), 1)]
    client.receive(pack("MSET", "a", "v" * 100)[:-5])
    assert client.unread() > 0
