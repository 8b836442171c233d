"""Whatever changes who a client is, its database or its protocol: its next commands run as that, on each node.

A client plays random programs, and the model keeps for each connection as whom, in which database and in which protocol
it is, from what has been sent on it. Each command that comes through has to run as the replies have told the client.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.hotpath.test_split import arguments
from tests.session.clustered import Routed
from tests.session.given import Client, FakeRoute, Upstream, call

PROGRAMS = [
    "AUTH app pw",
    "AUTH ops pw",
    "AUTH app wrong",
    "HELLO 2",
    "HELLO 3",
    "HELLO 3 AUTH ops pw",
    "HELLO 3 AUTH app wrong",
    "SELECT 0",
    "SELECT 1",
    "SELECT 9",
    "RESET",
    "GET a",
    "GET b",
    "GET c",
    "MGET a b c",
    "SET c x",
    "DBSIZE",
    "PING",
    "EVAL return 1 a",
    "CLIENT ID",
    "WATCH a",
    "UNWATCH",
    "MULTI",
    "EXEC",
    "DISCARD",
    "(some time)",
]
CHANGES = {b"AUTH", b"HELLO", b"SELECT", b"RESET"}


class Identity(NamedTuple):
    """As whom, where and how commands run."""

    user: str | None = None
    database: int = 0
    protocol: int = 2

    def after(self, argv: list[bytes]) -> Identity:
        """What a command leaves; the same where Redis refuses it."""
        if b"wrong" in argv or b"9" in argv:
            return self
        match argv[0]:
            case b"AUTH":
                return self._replace(user=argv[1].decode())
            case b"HELLO":
                user = argv[3].decode() if len(argv) > 3 else self.user
                return self._replace(user=user, protocol=int(argv[1]))
            case b"SELECT":
                return self._replace(database=int(argv[1]))
            case b"RESET":
                return Identity()
        return self


class Redis:
    """All connections of a route, and what they are. ``ran`` is what the client's commands ran as."""

    def __init__(self, route: FakeRoute) -> None:
        self.route = route
        self.known: dict[Upstream, Identity] = {}
        self.queued: dict[Upstream, int | None] = {}
        self.ran: list[tuple[Identity, bytes]] = []

    def serve(self) -> bool:
        """Answer all that has been sent; whether there was something."""
        served = False
        for upstream in {*self.route.all_upstreams(), *self.known}:
            for argv in arguments(b"" if upstream.closed else upstream.taken()):
                upstream.answer(self._answer(upstream, argv))
                served = True
        return served

    def _answer(self, upstream: Upstream, argv: list[bytes]) -> bytes:
        was = self.known.setdefault(upstream, Identity(*upstream.key[:3]))
        queued = self.queued.get(upstream)
        if argv[0] == b"MULTI":
            self.queued[upstream] = 0
            return b"+OK\r\n"
        if argv[0] in (b"EXEC", b"DISCARD"):
            self.queued[upstream] = None
            return b"*%d\r\n" % queued + b"+OK\r\n" * queued if queued is not None else b"-ERR without MULTI\r\n"
        if argv[0] not in CHANGES:
            self.ran.append((was, argv[0]))
        if queued is not None:
            self.queued[upstream] = queued + 1
            return b"+QUEUED\r\n"
        self.known[upstream] = was.after(argv)
        if b"wrong" in argv:
            return b"-WRONGPASS no\r\n"
        if b"9" in argv:
            return b"-ERR DB index is out of range\r\n"
        if argv[0] == b"MGET":
            return b"*%d\r\n" % (len(argv) - 1) + b"+\r\n" * (len(argv) - 1)
        return b":1\r\n" if argv[0] == b"DBSIZE" else b"%0\r\n" if argv[0] == b"HELLO" else b"+OK\r\n"


def play(client: Client, program: list[str]) -> None:
    """Run it, a command after the other, and compare."""
    route, redis, told, in_multi = client.route, Redis(client.route), Identity(), False
    route.known_users |= {"app", "ops"}
    for line in program:
        words = line.replace("return 1 a", "return_1 1 a").split()
        if words[0] == "(some":
            lingering, route.lingering = route.lingering, []
            for act in lingering:
                act()
            continue
        if in_multi and words[0].encode() in CHANGES - {b"RESET"}:
            continue
        in_multi = words[0] == "MULTI" or (in_multi and words[0] not in ("EXEC", "DISCARD", "RESET"))
        client.send(call(*words))
        while redis.serve():
            """Until nothing more is sent."""
        reply = client.heard()
        assert client.sender.pending_replies == 0
        assert reply or client.gone, f"no reply to {line}"
        if not reply.startswith(b"-"):
            told = told.after([word.encode() for word in words])
        ran, redis.ran = redis.ran, []
        assert all(identity == told for identity, _ in ran), f"{line}: {ran}, told {told}"
        assert client.key[:3] == told
        if client.gone:
            return


programs = st.lists(st.sampled_from(PROGRAMS), max_size=12)


@given(program=programs)
@settings(max_examples=300, deadline=None)
@example(program=["AUTH app pw", "(some time)", "GET a", "RESET", "GET a"])
@example(program=["SELECT 1", "(some time)", "GET a", "RESET", "GET a", "GET b"])
@example(program=["HELLO 3", "(some time)", "DBSIZE", "RESET", "DBSIZE", "MGET a b c"])
def test_with_a_cluster_upstream(program: list[str]) -> None:
    play(Routed(FakeRoute()), program)


@given(program=programs)
@settings(max_examples=300, deadline=None)
def test_before_one_redis(program: list[str]) -> None:
    play(Client(FakeRoute()), program)
