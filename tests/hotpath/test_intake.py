"""The intake gathers runs and stops where a command must be judged, however its bytes are cut."""

from __future__ import annotations

from typing import Any, cast

import pytest

from proxy.commands.table import STANDARD
from proxy.hotpath.intake.intake import ENDED, WAIT, WAITING
from proxy.hotpath.plan.appending import Appending
from proxy.hotpath.plan.leased_tokens import UNLIMITED, LeasedTokens, TokenSet
from proxy.hotpath.plan.plan import Plan
from proxy.hotpath.plan.request_edit import RequestEdit
from proxy.wire import request as wire
from tests.hotpath.gathering import ANY_TTL, Client, command_id, cuts, joined, outcome, pack


def test_commands_that_need_nobody_are_one_run_of_the_clients_own_bytes() -> None:
    client = Client()
    data = pack("GET", "a") + pack("set", "b", "1") + pack("INCR", "c")
    client.intake.receive(data)
    assert client.log == [("run", data, 3)]
    assert client.log[0][1] is data
    assert (client.sender.pending_replies, client.sender.forwarded, client.intake.pending) == (3, 3, None)


def test_a_run_ends_where_somebody_must_decide_and_goes_on_behind_it() -> None:
    first, special, last = pack("GET", "a") * 2, pack("CLIENT", "ID"), pack("GET", "b")
    for pieces in cuts(first + special + last):
        client = Client()
        assert outcome(client, pieces) == [("run", first, 2), ("special", special), ("run", last, 1)]
        assert (client.intake.pending, client.intake.unfinished, client.is_paused()) == (None, None, False)


def test_blank_lines_and_empty_arrays_get_no_reply() -> None:
    data = b"\r\n" + pack("GET", "a") + b"*0\r\n*-1\r\n\n" + pack("GET", "b") + b"*-7\r\n"
    for pieces in cuts(data):
        client = Client()
        assert outcome(client, pieces) == [("run", pack("GET", "a") + pack("GET", "b"), 2)]
        assert (client.sender.pending_replies, client.intake.pending) == (2, None)


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
        client.intake.resume()
        client.intake.receive(pack("GET", "c"))
        assert len(joined(client.log)) == 2


def test_nothing_behind_an_ending_command_is_read() -> None:
    client = Client()
    client.answers = [ENDED]
    client.intake.receive(pack("QUIT") + pack("GET", "a"))
    client.intake.receive(pack("GET", "b"))
    client.intake.resume()
    assert client.log == [("special", pack("QUIT"))]


def test_a_client_that_has_gone_is_not_read() -> None:
    client = Client()
    client.intake.finish()
    client.intake.receive(pack("GET", "a"))
    client.intake.resume()
    assert client.log == []


def test_what_must_wait_comes_again_with_all_behind_it() -> None:
    data = pack("GET", "a") + pack("CLIENT", "ID") + pack("GET", "b")
    for pieces in cuts(data):
        client = Client()
        client.answers = [WAIT, WAIT]
        for piece in pieces:
            client.intake.receive(piece)
        assert joined(client.log) == [("run", pack("GET", "a"), 1)]
        assert client.is_paused()
        assert client.intake.unread() == len(pack("CLIENT", "ID") + pack("GET", "b"))
        client.go_on()
        assert client.intake.phase == WAITING
        client.go_on()
        assert joined(client.log)[1:] == [("special", pack("CLIENT", "ID")), ("run", pack("GET", "b"), 1)]
        assert not client.is_paused()


def test_a_plain_command_that_waits_is_brought_again_to_who_made_it_wait() -> None:
    client = Client()
    client.fake_upstream.usable = False
    client.answers = [WAIT]
    client.intake.receive(pack("GET", "a") + pack("GET", "b"))
    client.fake_upstream.usable = True
    client.go_on()
    assert client.log == [("special", pack("GET", "a")), ("run", pack("GET", "b"), 1)]


@pytest.mark.parametrize("direct", [True, False])
def test_an_upstream_that_takes_nothing_gets_no_runs(direct: bool) -> None:
    client = Client()
    client.intake.direct = direct
    client.fake_upstream.usable = not direct
    client.intake.receive(pack("GET", "a"))
    client.sender.upstream = None
    client.intake.receive(pack("GET", "b"))
    assert client.log == [("special", pack("GET", "a")), ("special", pack("GET", "b"))]


# Windows


def test_no_more_than_the_window_is_owed() -> None:
    client = Client(window=4)
    data = [pack("GET", str(i)) for i in range(9)]
    client.intake.receive(b"".join(data))
    assert (client.sender.pending_replies, client.sender.stalled, client.is_paused()) == (4, True, True)
    client.intake.receive(pack("GET", "late"))
    assert client.sender.pending_replies == 4
    client.pay(1)
    assert (client.sender.pending_replies, client.sender.stalled) == (3, True)
    client.pay(1)
    assert (client.sender.pending_replies, client.sender.stalled) == (4, True)
    client.pay(4)
    client.pay(2)
    assert (client.sender.pending_replies, client.sender.stalled, client.is_paused()) == (2, False, False)
    assert joined(client.log) == [("run", b"".join(data) + pack("GET", "late"), 10)]


def test_the_beginning_of_a_command_does_not_keep_a_client_paused() -> None:
    whole = pack("GET", "0") * 6
    for cut in range(1, len(pack("GET", "0"))):
        client = Client(window=2)
        client.intake.receive(whole + pack("GET", "1")[:cut])
        while client.sender.pending_replies:
            client.pay(1)
        assert not client.is_paused()
        client.intake.receive(pack("GET", "1")[cut:])
        assert joined(client.log) == [("run", whole + pack("GET", "1"), 7)]


def test_a_client_that_does_not_take_its_replies_is_not_read_on() -> None:
    client = Client()
    client.sender.full = True
    client.intake.receive(pack("GET", "a") + b"*2\r\n")
    assert (client.log, client.is_paused()) == ([], True)
    client.sender.full = False
    client.intake.resume()
    assert client.log == [("run", pack("GET", "a"), 1)]
    assert not client.is_paused()


def test_a_window_is_counted_before_a_command_is_rewritten_or_counted() -> None:
    plan = Plan(len(STANDARD.specs))
    plan.count_keys(command_id("GET"))
    client = Client(plan, window=2)
    client.intake.receive(pack("GET", "a") * 5)
    while client.sender.pending_replies:
        client.pay(1)
    assert client.counters.harvest(10).total == 5


def test_what_a_token_set_affords_is_paid_for_and_the_rest_is_judged() -> None:
    plan = Plan(len(STANDARD.specs))
    plan.spend(command_id("GET"), b"\0\1")
    get = pack("GET", "a")
    data = get * 5 + pack("SET", "a", "1")
    for pieces in cuts(data):
        client = Client(plan)
        plenty = LeasedTokens(UNLIMITED)
        two, four = (
            TokenSet(LeasedTokens(2), plenty, plenty),
            TokenSet(LeasedTokens(9), LeasedTokens(len(get) * 4), LeasedTokens(3)),
        )
        client.intake.token_sets = [two, four]
        expected = [("run", get * 2, 2), *[("special", get)] * 3, ("run", pack("SET", "a", "1"), 1)]
        assert outcome(client, pieces) == expected
        assert (two.commands.left, four.commands.left, four.volume.left, four.places.left) == (0, 7, len(get) * 2, 1)
    unknown = Client(plan)
    assert outcome(unknown, [get])[0] == ("special", get)


def test_each_command_of_a_run_is_paid_from_its_own_token_sets() -> None:
    plan = Plan(len(STANDARD.specs))
    plan.spend(command_id("GET"), b"\0\1")
    plan.spend(command_id("SET"), b"\1\0")  # other bytes, and the same token sets
    plan.spend(command_id("DEL"), b"\2")
    get, put, drop, free = pack("GET", "a"), pack("SET", "a", "1"), pack("DEL", "a"), pack("INCR", "a")
    data = (get + drop + put + free + get) * 2
    token_sets = [TokenSet(LeasedTokens(100), LeasedTokens(1000), LeasedTokens(100)) for _ in range(3)]
    client = Client(plan)
    client.intake.token_sets = list(token_sets)
    assert outcome(client, [data]) == [("run", data, 10)]
    assert [100 - token_set.commands.left for token_set in token_sets] == [6, 6, 2]
    assert [1000 - token_set.volume.left for token_set in token_sets] == [len(get * 4 + put * 2)] * 2 + [len(drop * 2)]
    assert [100 - token_set.places.left for token_set in token_sets] == [6, 6, 2]


def test_what_is_refused_or_judged_behind_a_run_is_not_paid_for_by_it() -> None:
    plan = Plan(len(STANDARD.specs))
    for name in ("GET", "SET", "DEL"):
        plan.spend(command_id(name), b"\0")
    plan.judge_always(command_id("SET"))
    plan.refuse(command_id("DEL"), b"-NO\r\n")
    for behind in (pack("SET", "a", "1"), pack("DEL", "a")):
        client = Client(plan)
        token_set = TokenSet(LeasedTokens(9), LeasedTokens(1000), LeasedTokens(9))
        client.intake.token_sets = [token_set]
        client.intake.receive(pack("GET", "a") * 2 + behind)
        assert (token_set.commands.left, token_set.places.left) == (7, 7)
        assert token_set.volume.left == 1000 - len(pack("GET", "a") * 2)


def test_nothing_of_a_run_that_broke_off_is_sent_with_another_clients_run() -> None:
    plan = Plan(len(STANDARD.specs))
    plan.edit(command_id("SET"), RequestEdit(0, appending=Appending(3, 2, [ANY_TTL], [])))
    plan.programs.append(cast("Any", None))
    plan.check_names(command_id("GET"), 0)
    client, other = Client(plan), Client(plan)
    other.intake.config = client.intake.config
    with pytest.raises(AssertionError):
        client.intake.receive(pack("SET", "a", "1") + pack("GET", "a"))
    assert client.log == []
    other.intake.receive(pack("SET", "b", "2"))
    assert other.log == [("run", b"*5\r\n$3\r\nSET\r\n$1\r\nb\r\n$1\r\n2\r\n" + ANY_TTL, 1)]
