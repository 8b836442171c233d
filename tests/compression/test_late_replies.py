"""Replies whose values take several turns to decompress: what leaves is the same, in the same order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from proxy.commands.compressed_values import ReplyValues
from proxy.compression import budget, making
from proxy.compression.budget import PlainBudget
from proxy.compression.frames import STRING, Codec, pack
from proxy.compression.making import MOST_IN_REPLY
from proxy.compression.replies import TOO_LARGE, PlainReply
from proxy.hotpath.order.join import Join
from proxy.hotpath.order.reply_order import ReplyOrder
from proxy.hotpath.upstream import late_replies
from proxy.hotpath.upstream.in_flight import JOIN, InFlightEntry
from proxy.hotpath.upstream.late_replies import LateEdit, Making
from proxy.rules.verdict import chained
from proxy.tenants.replies import ErrorEdit
from tests.compression.test_replies import frame
from tests.hotpath.bench import OK, PIPELINE, Bench, heard

PORTION = 1000
LONG = [pack(b"a" * 900, STRING, Codec.ZSTD, 1, 60)] * 30
SHORT = pack(b"b" * 90, STRING, Codec.ZSTD, 1, 60)
PLAIN = frame([b"a" * 900] * 30)


class CountingBudget(PlainBudget):
    """So many bytes were ``made`` in this turn, and the ``most`` in one."""

    made = most = 0

    def unpack(self, *arguments: Any) -> bytes:
        value = super().unpack(*arguments)
        self.made += len(value)
        self.most = max(self.most, self.made)
        return value


class Worker:
    """One that makes replies; ``turn`` is the next turn of its event loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(late_replies, "PORTION", PORTION)
        monkeypatch.setattr(late_replies, "_SHARE", PORTION // 2)
        monkeypatch.setattr(late_replies, "_PIECE", 300)
        monkeypatch.setattr(budget, "_EACH", 10)
        monkeypatch.setattr(making, "_ELEMENT", 1)
        self.soon: list[Callable[[], object]] = []
        self.faults = 0
        self.budget = CountingBudget()
        self.budget.portions.run_by(self.soon.append, self._fault)

    def _fault(self) -> None:
        self.faults += 1

    def edit(self, form: ReplyValues = ReplyValues.ALL) -> PlainReply:
        return PlainReply(form, STRING, (True,), self.budget)

    def turn(self) -> None:
        assert len(self.soon) == 1, "it is asked for once"
        self.budget.made = 0
        self.soon.pop()()

    def turns(self) -> int:
        count = 0
        while self.soon:
            self.turn()
            count += 1
        return count


def bring(bench: Bench, client: Any, edit: LateEdit | None, whole: bytes) -> None:
    """A reply of Redis to this client."""
    bench.upstream.enqueue(client, 1, PIPELINE.EDIT_SOME, edit)
    bench.upstream.receive(whole)


def some_value(r: random.Random) -> bytes:
    plain = bytes([r.randrange(97, 100)]) * r.choice((0, 2, 70, 400, 1500))
    return r.choice((plain, pack(plain, STRING, r.choice(list(Codec)), 1, 60), r.randbytes(r.choice((1, 900)))))


def some_reply(r: random.Random) -> tuple[ReplyValues, bytes]:
    values: list[Any] = [some_value(r) for _ in range(2 * r.choice((0, 1, 3, 12)))]
    form = r.choice([*ReplyValues])
    if form is ReplyValues.ONE:
        return form, frame(some_value(r))
    if form is ReplyValues.PAGE:
        return form, frame([b"0", values])
    if form is ReplyValues.PAIRS and r.random() < 0.3:
        return form, frame([values[n : n + 2] for n in range(0, len(values), 2)])
    if form is ReplyValues.ALL:
        values += r.choice(([], [None], [7], [[b"x", 1]]))
    return form, frame(values, r.choice((b"*", b"%")) if form is ReplyValues.PAIRS else b"*")


@pytest.mark.parametrize("seed", range(200))
def test_they_are_the_same_in_whatever_pieces_they_come(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    r = random.Random(seed)
    worker, benches = Worker(monkeypatch), [Bench(PIPELINE) for _ in range(3)]
    clients = [[bench.client() for _ in range(3)] for bench in benches]
    expected = {client: b"" for each in clients for client in each}
    streams = [b""] * 3
    for _ in range(20):
        number = r.randrange(3)
        client, upstream = r.choice(clients[number]), benches[number].upstream
        form, whole = some_reply(r)
        if r.random() < 0.3:
            upstream.send_run(client, b"x", 1)
            whole, plain = b"+other\r\n", b"+other\r\n"
        elif r.random() < 0.2:
            upstream.enqueue(client, 1, PIPELINE.MEMBERS, {1: (PIPELINE.EDIT_SOME, worker.edit(form))})
            whole, plain = b"*3\r\n:1\r\n" + whole + OK, b"*3\r\n:1\r\n" + PlainReply(form, STRING)(whole) + OK
        else:
            upstream.enqueue(client, 1, PIPELINE.EDIT_SOME, worker.edit(form))
            plain = PlainReply(form, STRING)(whole)
        streams[number] += whole
        expected[client] += plain
    while any(streams):
        number = r.randrange(3)
        size = r.choice((1, 20, 400, 5000))
        benches[number].upstream.receive(streams[number][:size])
        streams[number] = streams[number][size:]
        if worker.soon and r.random() < 0.3:
            worker.turn()
    worker.turns()
    for client, all_of_it in expected.items():
        assert heard(client) == all_of_it
        assert client.pending_replies == 0
    assert worker.budget.most <= PORTION + 1500
    for bench in benches:
        assert bench.events.count("hold") == bench.events.count("go on")


def test_others_need_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, one, other = Worker(monkeypatch), Bench(PIPELINE), Bench(PIPELINE)
    waits, quick = one.client(), other.client()
    waits.notify_when_idle = True
    bring(one, waits, worker.edit(), frame(LONG))
    bring(other, quick, worker.edit(ReplyValues.ONE), frame(SHORT))
    assert (heard(waits), heard(quick)) == (b"", b"")
    worker.turn()
    worker.turn()
    assert heard(quick) == frame(b"b" * 90)
    assert one.events == ["hold", ("on_large_head", waits)]
    bring(other, quick, worker.edit(ReplyValues.ONE), frame(SHORT) * 2)
    assert worker.turns() > 30, "it leaves in portions, too"
    assert heard(waits) == PLAIN
    assert heard(quick) == frame(b"b" * 90)
    assert one.events[2:] == ["go on", ("on_idle", waits)]


def test_long_ones_are_made_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of one is in memory before it leaves."""
    worker, benches = Worker(monkeypatch), [Bench(PIPELINE) for _ in range(4)]
    clients = [bench.client() for bench in benches]
    for bench, client in zip(benches, clients, strict=True):
        bring(bench, client, worker.edit(), frame(LONG))
    done: list[int] = []
    while worker.soon:
        worker.turn()
        done += [n for n, client in enumerate(clients) if client.pending_replies == 0 and n not in done]
        begun = [n for n, client in enumerate(clients) if client.sent and n not in done]
        assert len(begun) <= 1
    assert done == [0, 1, 2, 3]


def test_who_comes_first_in_each_turn_does_not_get_all_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, served = Worker(monkeypatch), Counter[str]()
    portions, ready = worker.budget.portions, list("abc")

    def read(client: str) -> None:
        if portions.used_up:
            portions.wait(partial(read, client))
        else:
            portions.spend(PORTION)
            served[client] += 1
            ready.append(client)

    for _ in range(30):
        if worker.soon:
            worker.turn()
        for client in sorted(ready):
            ready.remove(client)
            read(client)
    assert max(served.values()) - min(served.values()) <= 1
    assert served.total() >= 30


def test_an_error_takes_the_place_of_a_reply_that_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, bench = Worker(monkeypatch), Bench(PIPELINE)
    client = bench.client()
    most = pack(bytes(1 << 20), STRING, Codec.ZSTD, 1, 64)
    bring(bench, client, worker.edit(), frame([most] * (1 + (MOST_IN_REPLY >> 20))))
    worker.turns()
    assert heard(client) == TOO_LARGE


def test_nothing_is_made_for_who_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, bench = Worker(monkeypatch), Bench(PIPELINE)
    leaver, stays = bench.client(), bench.client()
    bench.upstream.enqueue(leaver, 1, PIPELINE.EDIT_SOME, worker.edit())
    bring(bench, stays, worker.edit(ReplyValues.ONE), frame(LONG) + frame(SHORT))
    worker.turn()
    leaver.gone = True
    assert worker.turns() <= 3
    assert (heard(leaver), heard(stays)) == (b"", frame(b"b" * 90))


def test_a_lost_connection_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, bench = Worker(monkeypatch), Bench(PIPELINE)
    client = bench.client()
    bring(bench, client, worker.edit(), frame(LONG))
    assert bench.upstream.abandon() == [client]
    assert worker.turns() <= 2
    assert heard(client) == b""


class _Faulty(LateEdit):
    """Fails after its first turn."""

    opening = b""

    def __init__(self, edit: LateEdit) -> None:
        self.edit = edit

    @property
    def portions(self) -> Any:
        return self.edit.portions

    def making(self, pieces: list[bytes]) -> Making:
        yield
        raise ZeroDivisionError


def test_a_fault_closes_its_connection_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, faulty, other = Worker(monkeypatch), Bench(PIPELINE), Bench(PIPELINE)
    client = other.client()
    bring(faulty, faulty.client(), _Faulty(worker.edit()), frame(LONG))
    bring(other, client, worker.edit(), frame(LONG))
    worker.turns()
    assert (faulty.events, worker.faults) == (["hold", "out of step"], 1)
    assert heard(client) == PLAIN


def test_replies_to_tenants_take_several_turns_too(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, bench = Worker(monkeypatch), Bench(PIPELINE)
    client = bench.client()
    edit: Any = chained(ErrorEdit(b"acme:", [b"doc:1"]), worker.edit())
    bench.upstream.enqueue(client, 2, PIPELINE.EDIT_SOME, edit)
    bench.upstream.receive(frame(LONG) + b"-ERR no 'acme:doc:1' here\r\n")
    assert heard(client) == b""
    assert worker.turns() > 30
    assert heard(client) == PLAIN + b"-ERR no 'doc:1' here\r\n"


class Asker:
    """A client that awaits one reply of this connection, and then a joined one."""

    def __init__(self, worker: Worker) -> None:
        self.bench = Bench(PIPELINE)
        self.client = client = self.bench.client()
        self.order = order = ReplyOrder(client)
        client.ordered = True
        client.advance = order.advance
        client.close = self._close
        self.cause = ""
        self.before = order.segment(self.bench.upstream)
        self.bench.upstream.send_run(self.before, b"x", 1)
        order.ask(self.before, 1)
        place = order.place()
        join = Join(place, 1, b"".join)
        join.edit = worker.edit()
        other = Bench(PIPELINE).upstream
        other.expect(InFlightEntry(place, 1, JOIN, join.expect(0)))
        order.ask(place, 1)
        other.receive(frame(LONG))
        order.answer(b"+behind\r\n")

    def _close(self, cause: str) -> None:
        self.cause = cause
        self.client.gone = True
        self.order.abandon()


@pytest.mark.parametrize("early", [True, False])
def test_a_joined_reply_keeps_its_place(early: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(monkeypatch)
    asker = Asker(worker)
    assert asker.client.pending_replies == 4
    if early:
        asker.bench.upstream.receive(OK)
        assert (heard(asker.client), asker.client.pending_replies) == (OK, 2)
    assert worker.turns() > 30
    asker.bench.upstream.receive(b"" if early else OK)
    assert (heard(asker.client), asker.client.pending_replies) == (OK * (not early) + PLAIN + b"+behind\r\n", 0)
    assert (asker.order.size, asker.order.first) == (0, None)


def test_a_joined_reply_is_not_made_for_who_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(monkeypatch)
    asker = Asker(worker)
    asker.client.close("client")
    assert worker.turns() <= 3
    assert heard(asker.client) == b""


def test_a_fault_in_a_joined_reply_closes_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(monkeypatch)
    asker = Asker(worker)
    monkeypatch.setattr(CountingBudget, "unpack", lambda *_: 1 // 0)
    worker.turns()
    assert (asker.cause, worker.faults) == ("internal_error", 1)
