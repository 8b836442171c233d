"""Each transition of a client's connection, caused by the commands and replies that cause it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from proxy.session import session, state
from proxy.session.ports.pool_key import PoolKey
from proxy.session.state import (
    KEEPING,
    POOLED,
    Departed,
    Event,
    Keeping,
    Pinned,
    Pooled,
    PooledTransaction,
    Transaction,
    Watching,
)
from tests.session.given import HOME, Client, FakeRoute, Upstream, call

OK = b"+OK\r\n"
QUEUED = b"+QUEUED\r\n"
RESP3 = PoolKey(None, 0, 3)

Row = tuple[Keeping, Event]


class Used(Mapping[Row, Keeping]):
    """The table, and the rows of it that were used."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def __getitem__(self, row: Row) -> Keeping:
        self.rows.append(row)
        return KEEPING[row]

    def __iter__(self) -> Iterator[Row]:
        return iter(KEEPING)

    def __len__(self) -> int:
        return len(KEEPING)


def subscribe(client: Client) -> None:
    client.say("SUBSCRIBE", "a")
    client.own.answer(b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n")


def subscribe_again(client: Client) -> None:
    subscribe(client)
    client.say("SUBSCRIBE", "b")


def select(client: Client) -> None:
    client.say("SELECT", 1)


def select_and_watch(client: Client) -> None:
    select(client)
    client.own.answer(OK)
    client.say("WATCH", "k")


def transaction(client: Client) -> None:
    client.say("MULTI")
    client.say("EXEC")


def transaction_and_watch(client: Client) -> None:
    transaction(client)
    client.say("WATCH", "k")


def refused_transaction_between_watch_and_exec(client: Client) -> None:
    client.say("WATCH", "k")
    client.own.answer(OK)
    transaction(client)
    client.own.answer(b"-NOPERM\r\n")


def client_id(client: Client) -> None:
    client.say("CLIENT", "ID")
    client.own.answer(b":1\r\n")


def client_id_again(client: Client) -> None:
    client_id(client)
    client.say("CLIENT", "ID")


def client_id_and_subscribe(client: Client) -> None:
    client_id(client)
    subscribe(client)


def client_id_and_wait(client: Client) -> None:
    client_id(client)
    client.say("WAIT", 0, 0)


def log_in(client: Client) -> None:
    client.route.unknown_users.add("u")
    client.say("AUTH", "u", "secret")


def client_id_and_log_in(client: Client) -> None:
    client_id(client)
    log_in(client)
    client.own.answer(OK)


def subscribe_and_log_in(client: Client) -> None:
    client.say("SUBSCRIBE", "a")
    client.own.answer(b">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n")
    log_in(client)
    client.own.answer(OK)


def select_for_long(client: Client) -> None:
    select(client)
    client.route.lingering.pop()()


def log_in_for_long(client: Client) -> None:
    log_in(client)
    client.route.lingering.pop()()
    client.own.answer(OK)


def select_and_hold_anything(client: Client) -> None:
    select(client)
    client.happens(Event.UNKNOWN)  # no command is known that comes to this before the upstream is needed


SERVING, LINGERING, RETURNING, FOR_GOOD = Keeping

ROWS: list[tuple[Keeping, Event, Callable[[Client], None], Keeping | None]] = [
    (SERVING, Event.NEEDED, subscribe_again, SERVING),
    (SERVING, Event.LOGGED_IN, select, LINGERING),
    (SERVING, Event.HURRIED, subscribe_and_log_in, SERVING),
    (SERVING, Event.ENDED, transaction, RETURNING),
    (SERVING, Event.UNKNOWN, client_id, FOR_GOOD),
    (LINGERING, Event.NEEDED, select_and_watch, SERVING),
    (LINGERING, Event.HURRIED, select_for_long, RETURNING),
    (LINGERING, Event.UNKNOWN, select_and_hold_anything, FOR_GOOD),
    (RETURNING, Event.NEEDED, transaction_and_watch, SERVING),
    (RETURNING, Event.HURRIED, log_in_for_long, None),
    (RETURNING, Event.UNKNOWN, refused_transaction_between_watch_and_exec, FOR_GOOD),
    (FOR_GOOD, Event.NEEDED, client_id_and_subscribe, FOR_GOOD),
    (FOR_GOOD, Event.LOGGED_IN, client_id_and_wait, FOR_GOOD),
    (FOR_GOOD, Event.HURRIED, client_id_and_log_in, FOR_GOOD),
    (FOR_GOOD, Event.UNKNOWN, client_id_again, FOR_GOOD),
]
"""The commands, and what is then true of the private upstream; None: it has been given back."""


@pytest.mark.parametrize(("before", "event", "play", "after"), ROWS, ids=lambda each: getattr(each, "name", ""))
def test_a_private_upstream_is_kept_for_as_long_as_the_table_says(
    before: Keeping,
    event: Event,
    play: Callable[[Client], None],
    after: Keeping | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used = Used()
    monkeypatch.setattr(state, "KEEPING", used)
    client = Client(FakeRoute(), RESP3 if play is subscribe_and_log_in else HOME)
    play(client)
    assert (before, event) in used.rows
    assert (client.state.keeping if isinstance(client.state, Pinned) else None) is after


def test_each_row_of_the_table_is_played() -> None:
    assert [(before, event) for before, event, _, _ in ROWS] == list(KEEPING)


def test_what_is_kept_for_good_stays_kept() -> None:
    assert {after for (before, _), after in KEEPING.items() if before is FOR_GOOD} == {FOR_GOOD}
    assert {after for (_, event), after in KEEPING.items() if event is Event.UNKNOWN} == {FOR_GOOD}


# Open units of a connection


class Watched(Client):
    """A client of which all states are known that it is in between commands of one read."""

    __slots__ = ("states",)

    def __init__(self, route: FakeRoute) -> None:
        super().__init__(route)
        self.states: list[state.ClientState] = []

    def set_state(self, state: state.ClientState) -> None:
        self.states.append(state)
        super().set_state(state)


def test_a_whole_transaction_is_pooled_and_ends_with_exec() -> None:
    client = Client(FakeRoute())
    client.send(call("MULTI") + call("SET", "k", "v"))
    assert isinstance(client.state, Pinned), "it has not arrived whole"
    client = Watched(FakeRoute())
    client.send(call("MULTI") + call("SET", "k", "v") + call("EXEC"))
    assert [type(each) for each in client.states] == [PooledTransaction, Pooled]
    assert client.state is POOLED


def test_watch_multi_exec() -> None:
    client = Client(FakeRoute())
    client.say("WATCH", "a", "b")
    client.own.answer(OK)
    client.say("WATCH", "c")
    client.own.answer(OK)
    watching = client.on_its_own.unit
    assert watching == Watching(frozenset({b"a", b"b", b"c"}))
    client.say("MULTI")
    unit = client.on_its_own.unit
    assert isinstance(unit, Transaction)
    assert (unit.watching, client.state.watching) == (watching, watching)
    client.own.answer(OK)
    client.say("EXEC")
    assert (client.on_its_own.unit, client.own.unit) == (None, None)


def test_a_refused_multi_leaves_what_was_watched() -> None:
    client = Client(FakeRoute())
    client.say("WATCH", "a")
    client.own.answer(OK)
    client.say("MULTI")
    client.own.answer(b"-NOPERM\r\n")
    assert client.on_its_own.unit == Watching(frozenset({b"a"}))
    assert client.own.unit is client.sender


@pytest.mark.parametrize(("word", "before"), [("UNWATCH", ["WATCH"]), ("DISCARD", ["WATCH", "MULTI"])])
def test_what_ends_without_exec(word: str, before: list[str]) -> None:
    client = Client(FakeRoute())
    for each in before:
        client.say(*(each, "k") if each == "WATCH" else (each,))
        client.own.answer(OK)
    own = client.own
    client.say(word)
    own.answer(OK)
    assert client.state is POOLED
    assert own.unit is None


# From state to state

STATES: dict[type[state.ClientState], Callable[[], state.ClientState]] = {
    Pooled: lambda: POOLED,
    PooledTransaction: lambda: PooledTransaction(Transaction(0, 0)),
    Pinned: lambda: Pinned(Upstream(HOME)),
    Departed: lambda: Departed(None, 0),
}


def pinned(each: state.ClientState) -> state.ClientState:
    return state.pinned(each, Upstream(HOME))


def begun(each: state.ClientState) -> state.ClientState:
    return state.begun(each, Transaction(0, 0))


TRANSITIONS: dict[Callable[[state.ClientState], state.ClientState], Mapping[type[state.ClientState], type]] = {
    pinned: {Pooled: Pinned},
    state.unpinned: {Pinned: Pooled},
    begun: {Pooled: PooledTransaction, Pinned: Pinned},
    state.ended: {Pooled: Pooled, PooledTransaction: Pooled, Pinned: Pinned, Departed: Departed},
    state.departed: dict.fromkeys(STATES, Departed),
}
"""All others cannot happen: a transaction does not begin inside another, and nobody pins a client that has left."""


@pytest.mark.parametrize("before", STATES)
@pytest.mark.parametrize("transition", TRANSITIONS)
def test_a_transition_leads_to_one_state_or_cannot_happen(
    transition: Callable[[state.ClientState], state.ClientState], before: type[state.ClientState]
) -> None:
    after = TRANSITIONS[transition].get(before)
    if after is None:
        with pytest.raises(AssertionError):
            transition(STATES[before]())
    else:
        assert type(transition(STATES[before]())) is after


def test_states_are_made_where_the_transitions_are() -> None:
    folder = Path(session.__file__).parent
    made = re.compile(r"(?<!case )\b(?:Pooled|PooledTransaction|Pinned|Departed)\(|\.state = POOLED\b")
    assert [source.name for source in sorted(folder.rglob("*.py")) if made.search(source.read_text())] == ["state.py"]


def test_a_session_changes_its_pool_in_one_place() -> None:
    """Else something of its old pool would be used for its next command."""
    folder = Path(session.__file__).parent
    sets = re.compile(r"\b(?:session|self)\.key\s*=[^=]")
    assert sorted(
        (source.name, len(sets.findall(source.read_text())))
        for source in folder.rglob("*.py")
        if sets.search(source.read_text())
    ) == [
        ("client_upstream.py", 1),
        ("session.py", 1),
    ]


def test_a_client_without_an_upstream_can_hold_nothing() -> None:
    client = Client(FakeRoute())
    with pytest.raises(AssertionError):
        client.on_its_own.reply_mode = 1
    with pytest.raises(AttributeError):
        object.__setattr__(client.state, "unit", Watching(frozenset()))
    client.happens(Event.UNKNOWN)
    assert client.state is POOLED


def test_what_a_client_that_left_had_chosen_goes_on_to_be_true() -> None:
    client = Client(FakeRoute())
    client.set_reply_mode("OFF")
    client.close("client")
    assert client.state == Departed(None, 1)
    assert (client.state.upstream, client.state.transaction, client.state.watching) == (None, None, None)


def test_a_session_halts_in_one_place_which_names_what_it_waits_for() -> None:
    """Else ``arrived`` would not bring it on."""
    folder = Path(session.__file__).parent.parent
    written = [
        source.name
        for part in ("session", "net")
        for source in sorted((folder / part).rglob("*.py"))
        for _ in re.findall(r"\bintake\.(?:wait\(|phase\s*=[^=])", source.read_text())
    ]
    assert written == ["client_waits.py"]
