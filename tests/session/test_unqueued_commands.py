"""Commands that wait behind no other client's commands: they run on an idle upstream, and overtake no command that
could notice."""

from __future__ import annotations

import pytest

from proxy.commands.table import STANDARD, ConnectionState
from proxy.session.ports.pool_key import PoolKey
from tests.session.given import Client, FakeRoute, Upstream, call

OK = b"+OK\r\n"
RESET = call("SLOWLOG", "RESET")
CONFIG = call("CONFIG", "SET", "maxmemory", 1)
GET = call("GET", "a")


class Busy:
    """A route on whose shared upstream another client's write is pending, and a client."""

    def __init__(self) -> None:
        self.route = FakeRoute()
        Client(self.route).say("SET", "k", "v")
        self.shared = self.route.upstream()
        self.shared.taken()
        self.client = Client(self.route)

    def lent(self) -> Upstream:
        """The only upstream that somebody has for itself."""
        (lent,) = self.route.lent
        return lent


UNBLOCKING = [spec.name for spec in STANDARD.specs if spec.state is ConnectionState.IDLE]


@pytest.mark.parametrize("name", UNBLOCKING)
def test_a_command_that_ends_what_others_wait_for_takes_any_idle_connection_and_nothing_follows_on_it(
    name: str,
) -> None:
    route = FakeRoute()
    client = Client(route, PoolKey(None, 5, 2))
    client.say("CLIENT", "SETNAME", "worker")
    client.heard()
    anywhere = Upstream(PoolKey(None, 0, 3))
    route.anywhere.append(anywhere)
    client.send(call(*name.split("|")) + call("GET", "b") + call("BLPOP", "q", "0"))
    assert anywhere.taken() == call(*name.split("|")), "nor a name, nor another command, nor a database"
    anywhere.answer(b"+OK\r\n")
    assert (anywhere.taken(), route.released) == (b"", [anywhere])
    assert route.upstream(PoolKey(None, 5, 2)).taken() == call("GET", "b")
    assert client.heard() == b"+OK\r\n"


def test_a_command_of_administrators_does_not_wait_behind_another_client() -> None:
    busy = Busy()
    busy.client.send(CONFIG + call("CLIENT", "UNPAUSE") + GET)
    assert busy.lent().taken() == CONFIG
    busy.lent().answer(OK)
    assert busy.lent().taken() == call("CLIENT", "UNPAUSE")
    busy.lent().answer(OK)
    assert (busy.client.heard(), busy.route.lent) == (OK + OK, [])
    assert busy.shared.taken() == GET


def test_it_is_pooled_where_nothing_is_pending_and_what_follows_waits_for_it() -> None:
    route = FakeRoute()
    client = Client(route)
    client.send(CONFIG + GET)
    assert (route.upstream().taken(), route.lent) == (CONFIG, [])
    route.upstream().answer(OK)
    assert route.upstream().taken() == GET


def test_it_waits_for_reads_that_could_tell_of_it() -> None:
    busy = Busy()
    busy.client.send(GET + CONFIG)
    assert (busy.shared.taken(), busy.route.lent) == (GET, [])
    busy.shared.answer(OK, b"$1\r\na\r\n")
    assert busy.shared.taken() == CONFIG


@pytest.mark.parametrize("before", [GET, call("INFO"), call("PING")])
def test_it_overtakes_reads_that_cannot_tell_and_what_follows_keeps_its_place(before: bytes) -> None:
    busy = Busy()
    busy.client.send(before + RESET + GET + call("CLIENT", "UNPAUSE") + call("SELECT", 5))
    assert (busy.shared.taken(), busy.lent().taken()) == (before, RESET)
    busy.lent().answer(b"+reset\r\n")
    assert (busy.shared.taken(), busy.lent().taken()) == (GET, call("CLIENT", "UNPAUSE"))
    busy.lent().answer(OK)
    assert (busy.client.heard(), busy.route.lent) == (b"", [])
    busy.shared.answer(OK, b"+1\r\n", b"+2\r\n")
    assert busy.client.heard() == b"+1\r\n+reset\r\n+2\r\n" + OK
    assert busy.client.sender.order is None
    busy.client.own.answer(OK)
    assert busy.client.key.database == 5


def test_nothing_overtakes_a_write() -> None:
    busy = Busy()
    busy.client.send(call("SET", "a", 1) + RESET)
    assert (busy.shared.taken(), busy.route.lent) == (call("SET", "a", 1), [])
    busy.shared.answer(OK, OK)
    assert busy.shared.taken() == RESET


def test_it_goes_over_a_shared_upstream_where_there_is_no_other() -> None:
    busy = Busy()
    busy.client.send(call("PING"))
    busy.shared.answer(OK, OK)
    other = Client(busy.route)
    other.say("SET", "k", "v")
    busy.shared.taken()
    busy.route.known_users.clear()
    busy.route.private_connections = 0
    busy.client.send(CONFIG + GET)
    assert busy.shared.taken() == CONFIG
    busy.shared.answer(OK, OK)
    assert busy.shared.taken() == GET


@pytest.mark.parametrize("gone_first", [True, False])
def test_a_client_that_leaves_while_it_waits_leaves_nothing_behind(gone_first: bool) -> None:
    busy = Busy()
    busy.client.send(GET + RESET)
    lent = busy.lent()
    if gone_first:
        busy.client.close("client")
    lent.answer(OK)
    busy.client.close("client")
    assert busy.route.released == [lent]
    busy.shared.answer(OK, b"+1\r\n")
    assert busy.client.heard() == b""
