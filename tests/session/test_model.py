"""Whatever clients do, each gets the replies that it would get from its own engine.

Three clients play random programs through sessions to a simulated engine, with requests and replies held back and cut,
upstreams withheld, policies reloaded and clients replaced at random; the same programs are played to an engine for
each client. No two clients have a key in common.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from proxy.hotpath.intake.intake import READING
from tests.policy.given import policy
from tests.session.given import HOME, LARGE, Client, call
from tests.session.model import Direct, ModelRoute, ModelUpstream, engine

RULES = """
    defaults: {mode: enforce}
    rules:
      %s: {refuse: [FLUSHALL, APPEND]}
      lifetime: {lifetime: {default: 5m, types: [string, hash, list]}}
      known-sizes: {whole_collections: {commands: [HGETALL], max: 10, unknown: pass}}
    """
POLICIES = [policy(RULES % name) for name in ("no-flush", "never-flush")]
"""Two that say the same, so that it does not matter which of them is in force."""
BIG = "x" * (LARGE + 20)

NO_MULTI = ("SUBSCRIBE", "UNSUBSCRIBE", "CLIENT REPLY", "AUTH", "HELLO")
NO_SUBSCRIBER = (
    "HELLO",
    "MULTI",
    "EXEC",
    "DISCARD",
    "WATCH",
    "AUTH",
    "CLIENT",
    "SELECT",
    "NOSUCH",
    "FLUSHALL",
    "APPEND",
    "SET",
    "RENAME",
    "LPUSH",
    "INCR",
)

COMMANDS = [
    "ECHO {n}",
    "ECHO {n}" + BIG,
    "EVAL {n} 0",
    "BLPOP {n} 0",
    "MY.OWN {n}",
    "NOSUCH {n}",
    "SET {k} {n}",
    "SET {k} " + BIG,
    "MSET {k}a " + BIG + " {k}b {n}",
    "MSET {k}a 1 {k}b {n}",
    "SETNX {k} {n}",
    "SET {k} {n} KEEPTTL",
    "INCR {n}",
    "LPUSH {k} x",
    "LPUSH {k} " + BIG,
    "HGETALL {n}",
    "RENAME {k} {k}l",
    "LRANGE {n} 0 -1",
    "GET",
    "PING",
    "FLUSHALL",
    "APPEND {k} " + BIG,
    "MULTI",
    "MULTI x",
    "EXEC",
    "EXEC x",
    "DISCARD",
    "DISCARD x",
    "WATCH {k}",
    "UNWATCH",
    "UNWATCH x",
    "SELECT 0",
    "SELECT 1",
    "SELECT 01",
    "SELECT 9",
    "HELLO 2",
    "HELLO 3",
    "AUTH ann right",
    "AUTH bob right",
    "AUTH ann wrong",
    "RESET",
    "SUBSCRIBE a",
    "SUBSCRIBE a b",
    "UNSUBSCRIBE a",
    "UNSUBSCRIBE",
    "CLIENT ID",
    "CLIENT SETNAME n{n}",
    "CLIENT GETNAME",
    "CLIENT REPLY ON",
    "CLIENT REPLY OFF",
    "CLIENT REPLY SKIP",
]
LIKELY = ["ECHO {n}", "EVAL {n} 0", "HGETALL {n}", "MULTI", "EXEC", "SETNX {k} {n}", "INCR {n}", "LPUSH {k} x", "PING"]
LIKELY.append("LPUSH {k} " + BIG)

reads = st.tuples(
    st.integers(0, 2),
    st.lists(st.sampled_from(COMMANDS) | st.sampled_from(LIKELY), min_size=1, max_size=6),
    st.sampled_from([1.0, 1.0, 0.9, 0.5]),
)
works = st.tuples(st.just("work"), st.integers(0, 5), st.integers(1, 40))
troubles = st.sampled_from(
    ["starve", "feed", "close shop", "open shop", "linger", "reload", "tell", "out of time", "replace 0", "replace 1"]
)
programs = st.lists(reads | reads | works | troubles, max_size=24)


class Play:
    def __init__(self, window: int, pooling: bool) -> None:
        self.route = ModelRoute(POLICIES[0], pooling, window)
        self.route.known_users |= {"ann", "bob"}
        self.clients = [Client(self.route, HOME) for _ in range(3)]
        self.direct = [Direct(engine()) for _ in range(3)]
        self.keys = ["k0", "k1", "k2"]
        self.expected = [b""] * 3
        self.withheld = [b""] * 3
        self.sent = 0

    def upstreams(self) -> list[ModelUpstream]:
        found = [*self.route.all_upstreams(), *self.route.idle]
        return [upstream for upstream in found if isinstance(upstream, ModelUpstream)]

    def read(self, who: int, lines: list[str], share: float) -> None:
        """One read of a client: several commands, as they come, or as much of them as is there yet."""
        data, self.withheld[who] = self.withheld[who], b""
        direct = self.direct[who]
        for line in lines:
            if direct.queue is not None and line.startswith(NO_MULTI):
                continue
            if direct.subscribed() and line.startswith(NO_SUBSCRIBER):
                continue
            self.sent += 1
            words = line.replace("{n}", f"{who}-{self.sent}").replace("{k}", self.keys[who]).split()
            self.expected[who] += direct.command([word.encode() for word in words])
            data += call(*words)
        there = int(len(data) * share)
        self.withheld[who] = data[there:]
        self.clients[who].intake.receive(data[:there])
        self.check()

    def check(self) -> None:
        for client in self.clients:
            client.check()
            assert client.cause is None, client.cause
        assert all(not upstream.complaints for upstream in self.upstreams())
        assert all(upstream.unit_known() for upstream in self.upstreams())

    def act(self, what: str) -> None:
        if what == "starve":
            self.route.starving = True
        elif what == "feed":
            self.route.feed()
        elif what == "linger":
            lingering, self.route.lingering = self.route.lingering, []
            for over in lingering:
                over()
        elif what == "reload":
            self.route.put_in_force(POLICIES[self.route.generation % 2])
            for client in self.clients:
                client.adopt()
        elif what == "tell":
            asked, self.route.asked = self.route.asked, []
            for _, questions, answered in asked:
                answered([b":5\r\n"] * len(questions))
        elif what == "out of time":
            for act in list(self.route.timers):
                act()
        elif what.startswith("replace"):
            self._replace(int(what[-1]))
        else:
            for upstream in self.route.pools.values():
                upstream.usable = what == "open shop"
            if what == "open shop":
                self.route.feed()
        self.check()

    def _replace(self, who: int) -> None:
        """A client leaves in the middle of whatever it does, and another comes."""
        self.clients[who].close("left")
        self.clients[who] = Client(self.route, HOME)
        self.direct[who] = Direct(engine())
        self.keys[who] += "'"
        self.expected[who] = self.withheld[who] = b""

    def settle(self) -> None:
        """Everything that can happen happens."""
        for who in range(3):
            self.read(who, [], 1.0)
        self.act("open shop")
        busy = True
        while busy:
            busy = sum(upstream.work() for upstream in self.upstreams()) > 0
            if self.route.waiting or self.route.lingering or self.route.asked:
                busy = True
                self.act("feed")
                self.act("linger")
                self.act("tell")
            self.check()


@pytest.mark.parametrize("pooling", [True, False], ids=["pooled", "unpooled"])
@settings(max_examples=250, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@example([(0, ["UNSUBSCRIBE a", "CLIENT REPLY OFF"], 1.0)], 1)
@example([(0, ["WATCH {k}", "SUBSCRIBE a", "UNWATCH"], 1.0)], 1)
@example([(0, ["CLIENT REPLY OFF", "BLPOP {n} 0", "SET {k} {n} KEEPTTL"], 1.0)], 1)
@example([(0, ["CLIENT REPLY OFF", "MULTI", "SELECT 1", "EXEC", "PING"], 1.0)], 1)
@given(programs, st.integers(1, 6))
def test_every_client_hears_what_it_would_hear_alone(pooling: bool, program: list[object], window: int) -> None:
    play = Play(window, pooling)
    for step in program:
        match step:
            case (int(who), list(lines), float(share)):
                play.read(who, lines, share)
            case ("work", int(which), int(size)):
                upstreams = play.upstreams()
                if upstreams:
                    upstreams[which % len(upstreams)].work(size)
                    play.check()
            case str(trouble):
                play.act(trouble)
            case _:
                raise AssertionError(step)
    play.settle()
    for client, expected in zip(play.clients, play.expected, strict=True):
        # A refusal's words are the rule's.
        lines = [b"-DENIED\r\n" if line.startswith(b"-DENIED") else line for line in client.heard().splitlines(True)]
        assert b"".join(lines) == expected
        assert client.sender.pending_replies == 0
        assert client.intake.phase == READING
        assert client.intake.unread() == 0
