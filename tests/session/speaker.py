"""A client of a cluster that knows what each of its replies must be, and the commands that it sends.

The nodes are those of ``answering.py``, whose replies follow from the commands.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from proxy.hotpath.cluster.router import Router
from proxy.session.state import POOLED, Keeping, Pinned
from proxy.wire.encode import encode_bulk
from tests.resp import FrameReader
from tests.session.answering import CLIENT_ID, USER, AnsweringRoute, KnownNodes
from tests.session.clustered import NODES, TAGS, Routed
from tests.session.given import HOME, LARGE

Row = tuple[float, str, str]
MULTI: Row = (4, "MULTI", r"\+OK\r\n")
EXEC: Row = (4, "EXEC", "checked by member")
COMMANDS: list[Row] = [
    MULTI,
    EXEC,
    (12, "GET {k}", "{K}"),
    (8, "SET {k} v", "{K}"),
    (2, "SET {k} " + "v" * 2 * LARGE, "{K}"),
    (2, "INCR {k}", "{K}"),
    (5, "ECHO {k}", "{K}"),
    (3, "PING {k}", "{K}"),
    (5, "MGET {k} {l}", r"\*2\r\n{K}{L}"),
    (2, "UNLINK {k} {l}", ":2\r\n"),
    (1, "DEL {k} {l}", ":2\r\n"),
    (1, "MSET {k} 1 {l} 2", r"\+OK\r\n"),
    (4, "EVAL x 1 {k}", "{K}"),
    (2, "EVAL x 0 {k}", "{K}"),
    (4, "BLPOP {k} 0", r"\*2\r\n{K}\$1\r\nv\r\n"),
    (2, "DISCARD", r"\+OK\r\n"),
    (2, "WATCH {k}", r"\+OK\r\n"),
    (2, "UNWATCH", r"\+OK\r\n"),
    (2, "DBSIZE", ":\\d+\r\n"),
    (2, "PUBLISH ch {k}", ":\\d+\r\n"),
    (2, "WAIT 0 0", ":\\d+\r\n"),
    (2, "CLIENT ID", f":{CLIENT_ID}\r\n"),
    (1, "CLIENT SETNAME me", r"\+OK\r\n"),
    (1, "SELECT 0", r"\+OK\r\n"),
    (2, "RESET", r"\+RESET\r\n"),
    (1, "SCRIPT KILL", r"\+OK\r\n"),
    (1, "CONFIG SET a b", r"\+OK\r\n"),
    (2, "KEYRAIL NODE {node} ECHO {k}", "{K}"),
    (1, "HELLO {protocol}", r"[*%].*"),
    (0.4, f"AUTH {USER} p", r"\+OK\r\n"),
    (0.3, "MONITOR x", r"\+OK\r\n"),
    (0.3, "MY.OWN {k}", r"\+OK\r\n"),
    (0.2, "SUBSCRIBE x", ".*subscribe.*"),
    (0.2, "SSUBSCRIBE x", ".*ssubscribe.*"),
    (1, "UNSUBSCRIBE x", ".*unsubscribe.*"),
    (0.05, "QUIT", r"\+OK\r\n"),
]
"""How often, the command and what its reply must be, unless it is an error: {k} and {l} are keys that no other command
has, mostly of one slot, {K} and {L} the same as bulk strings."""
WEIGHTS = [weight for weight, _, _ in COMMANDS]


@dataclass
class Asked:
    """A command, and what its reply must be."""

    words: list[str]
    expected: re.Pattern[bytes]

    def answered_by(self, frame: bytes) -> bool:
        return frame.startswith(b"-") or self.expected.fullmatch(frame) is not None


class Speaker(Routed):
    """A client that knows what each of its replies must be."""

    __slots__ = ("asked", "frames", "queued", "tag", "told")

    def __init__(self, route: AnsweringRoute, nodes: KnownNodes, router: Router, protocol: int) -> None:
        super().__init__(route, router)
        self.nodes = nodes
        self.ports = route.ports = replace(route.ports, nodes=nodes)
        self.key = self.home = HOME._replace(protocol=protocol)
        self.asked: list[Asked] = []
        self.told = 0
        self.tag = TAGS[0]
        self.frames = FrameReader()
        self.queued: list[Asked] | None = None

    def is_leaving(self) -> bool:
        return self.gone or self.leaving

    def choose(self, chance: random.Random, keys: Iterator[int]) -> list[Asked]:
        """The next commands, which may be a transaction."""
        if chance.random() < 0.3:
            self.tag = chance.choice(TAGS)
        rows = chance.choices(COMMANDS, WEIGHTS, k=chance.choice([1, 1, 1, 2, 4]))
        if chance.random() < 0.2:
            rows = [MULTI, *rows, *([EXEC] if chance.random() < 0.8 else [])]
        return [self._command(chance, keys, words, expected) for _, words, expected in rows]

    def _command(self, chance: random.Random, keys: Iterator[int], words: str, expected: str) -> Asked:
        tags = self.tag, self.tag if chance.random() < 0.5 else chance.choice(TAGS)
        first, second = (f"{{{tag}}}{next(keys)}" for tag in tags)
        node = self.nodes.alias(chance.choice(NODES))
        sent = [word.format(k=first, l=second, node=node, protocol=self.key.protocol) for word in words.split()]
        for mark, key in (("{K}", first), ("{L}", second)):
            expected = expected.replace(mark, re.escape(encode_bulk(key.encode()).decode()))
        return Asked(sent, re.compile(expected.encode(), re.DOTALL))

    def waits(self) -> bool:
        return not self.is_leaving() and self.told < len(self.asked)

    def listen(self, *, all_rights: bool) -> list[tuple[Asked, bytes]]:
        """Check what has come: a reply for each command, in its order, with its content, and nothing else."""
        self.frames.feed(self.heard())
        heard = []
        while (frame := self.frames.frame()) is not None:
            assert self.told < len(self.asked), f"nobody has asked for {frame!r}"
            asked = self.asked[self.told]
            self.told += 1
            heard.append((asked, frame))
            leaks = frame.startswith(b"-") and (b"700" in frame or b"-MOVED" in frame)
            assert not leaks, f"{asked.words} names a node: {frame!r}"
            if all_rights:  # else it depends on them which commands of a transaction run
                self.follow(asked, frame)
        return heard

    def follow(self, asked: Asked, frame: bytes) -> None:
        """Check one reply."""
        name, queued = asked.words[0], self.queued
        if name in ("EXEC", "DISCARD", "RESET", "QUIT") and not (name in ("DISCARD", "RESET") and frame[:1] == b"-"):
            self.queued = None
        if frame.startswith(b"-") or name == "QUIT" or (name == "PING" and frame.startswith(b"*2")):
            return
        if name == "EXEC":
            assert queued is not None, f"EXEC without MULTI: {frame!r}"
            head, _, rest = frame.partition(b"\r\n")
            assert head == b"*%d" % len(queued), f"{frame!r} is of {[each.words for each in queued]}"
            members = FrameReader()
            members.feed(rest)
            for each in queued:
                member = members.frame()
                assert member is not None, f"{each.words} has no reply in {frame!r}"
                assert each.answered_by(member), f"{each.words} got {member!r} of EXEC"
        elif queued is not None and name not in ("DISCARD", "RESET"):
            assert frame == b"+QUEUED\r\n", f"{asked.words} inside MULTI got {frame!r}"
            queued.append(asked)
        else:
            assert asked.answered_by(frame), f"{asked.words} got {frame!r}"
            if name == "MULTI":
                self.queued = []

    def check_pooled(self, route: AnsweringRoute) -> None:
        """Without state on a connection, it is as if nothing had happened."""
        if self.state is POOLED:
            assert self.intake.simple == self.plain_commands(), "the intake forwards what it may not, or too little"
            assert self.effective_policy is route.effective_policy(self.key, self.caller()), "the policy is of before"

    def check_settled(self, *, all_rights: bool) -> None:
        """All of its commands are answered: it keeps what it has opened, and nothing else."""
        state = self.state
        if type(state) is Pinned and state.unit is None and self.sender.pending_replies == 0:
            bound = state.keeping is Keeping.FOR_GOOD and not all_rights
            assert bound, f"{state} has a connection of its own for nothing"
        if self.queued is None and all_rights:
            assert state.transaction is None, "the transaction has not ended"
        assert (self.awaited, self.held) == (None, None), "something is awaited with all replies there"
