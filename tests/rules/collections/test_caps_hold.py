"""No sequence of writes makes a collection larger than its cap, except by the members of one write: on real engines,
with every command of the table that makes a collection grow or writes a whole one."""

import random
from collections.abc import Iterator

import pytest

from proxy.commands.command import Command
from proxy.commands.creation import creation_of
from proxy.commands.derived import DERIVED
from proxy.commands.growth import GROWING
from proxy.commands.table import STANDARD
from proxy.rules.collections.rule import Collections, CollectionsSettings
from proxy.rules.context import Context
from proxy.rules.rule import Binding
from proxy.rules.verdict import InspectReply, Pass, Procedure, Refuse, Verdict
from tests.conftest import Fleet
from tests.resp import Wire
from tests.rules.given import NO_WORDS, context

CAP = 8
STREAMS = 20
BROUGHT = 2
"""Members that one write of this test brings at most: a write to a collection that is full is refused, not cut."""
BIG = 40
"""Members of collections that were there before the rule."""

GIVEN_ELSEWHERE = {"XGROUP|CREATE", "EVAL", "EVALSHA", "FCALL", "RESTORE", "RESTORE-ASKING"}
"""An empty stream; what scripts do is not looked into; payloads have tests of their own."""
LATER = {"HIMPORT|SET", "LMOVEM", "BLMOVEM"}
"""Of engines that are not at hand."""

TEMPLATES = """
    HSET h {m} 1 {m} 2 | HMSET h {m} 1 {m} 2 | HSETNX h {m} 1 | HSETEX h FIELDS 1 {m} 1 | HINCRBY h {m} 1
    HINCRBYFLOAT h {m} 1
    LPUSH l {m} {m} | RPUSH l {m} {m} | LPUSHX l {m} {m} | RPUSHX l {m} {m} | LINSERT l BEFORE x {m}
    LMOVE l l LEFT RIGHT | RPOPLPUSH l l | BLMOVE l l LEFT RIGHT 0.01 | BRPOPLPUSH l l 0.01
    SADD s {m} {m} | SMOVE s s x
    ZADD z 1 {m} 2 {m} | ZINCRBY z 1 {m} | GEOADD z 1 1 {m} 2 2 {m}
    XADD x * f v | XADD x MAXLEN 1000 * f v | XADD x MAXLEN = 15 * f v | XADD x NOMKSTREAM MAXLEN ~ 1000 LIMIT 0 * f v
    SUNIONSTORE s s s | SINTERSTORE s s s | SDIFFSTORE s s s
    ZUNIONSTORE z 2 z z | ZUNIONSTORE z 2 z s | ZINTERSTORE z 2 z z | ZDIFFSTORE z 2 z z | ZRANGESTORE z z 0 -1
    ZRANGESTORE z z 0 5 | GEOSEARCHSTORE z z FROMLONLAT 1 1 BYRADIUS 9999 km | GEORADIUS z 1 1 9999 km STORE z
    GEORADIUSBYMEMBER z x 9999 km STORE z
    SORT l BY nosort STORE l | SORT s ALPHA STORE l | SORT l BY nosort GET # GET # STORE l
    SORT z ALPHA LIMIT 0 3 STORE l
    COPY any any REPLACE | RENAME any any | RENAMENX any any | MOVE any 1
"""
KEYS = {kind: [f"{kind}{i}" for i in range(3)] for kind in "hlszx"}
ALL_KEYS = [key for keys in KEYS.values() for key in (*keys, f"big:{keys[0][0]}")]
SIZES = ("HLEN", "LLEN", "SCARD", "ZCARD", "XLEN")


def templates() -> list[list[str]]:
    return [each.split() for line in TEMPLATES.strip().splitlines() for each in line.split("|")]


def test_every_command_that_grows_a_collection_is_tried() -> None:
    collections = {"hash", "list", "set", "zset", "stream", ""}
    creating = {spec.name for spec in STANDARD.specs if (how := creation_of(spec)) and how.type in collections}
    tried = {words[0] for words in templates()}
    assert (creating | GROWING | DERIVED.keys()) - GIVEN_ELSEWHERE - LATER == tried


class Guarded:
    """An engine behind the rule: commands one by one, so many seconds apart; a hundred, and no size is remembered."""

    def __init__(self, wire: Wire, rule: Collections, apart: float = 100.0) -> None:
        self.wire = wire
        self.rule = rule
        self.apart = apart
        self.now = 0.0

    def context(self) -> Context:
        found = context()
        found.now = self.now
        return found

    def run(self, argv: list[bytes]) -> bool:
        """Whether the command was let through."""
        self.now += self.apart
        command = Command(STANDARD, argv)
        verdict = self.rule.judge(command, self.context()) if self.rule.touches(command.spec) else Pass()
        if isinstance(verdict, Procedure) and verdict.waits:
            verdict = self.ends_in(verdict)
        if isinstance(verdict, Refuse):
            return False
        reply = self.wire.ask(*argv)
        if isinstance(verdict, InspectReply):
            verdict.at(reply)
        elif isinstance(verdict, Procedure):
            self.ends_in(verdict)
        return True

    def ends_in(self, procedure: Procedure) -> Verdict:
        steps = procedure.steps()
        questions = next(steps)
        while True:
            replies = [self.wire.ask(*question) for question in questions]
            try:
                questions = steps.send(replies)
            except StopIteration as stop:
                end: Verdict = stop.value
                return end


def sizes(wire: Wire, keys: list[str]) -> dict[str, tuple[int, bool]]:
    """Of each key, how large it is and whether it is a stream."""
    for key in keys:
        for measure in SIZES:
            wire.say(measure, key)
    replies = iter(wire.frames(len(keys) * len(SIZES)))
    told = {
        key: [int(reply[1:]) if reply.startswith(b":") else 0 for reply in (next(replies) for _ in SIZES)]
        for key in keys
    }
    return {key: (max(found), found[-1] > 0) for key, found in told.items()}


def filled(chance: random.Random, words: list[str]) -> list[str]:
    """The words with keys and members in place of what stands for them."""
    chosen = []
    for word in words:
        if word == "any":
            chosen.append(chance.choice(ALL_KEYS))
        elif word in KEYS:
            chosen.append(chance.choice([*KEYS[word], f"big:{word}"] if words[0] in DERIVED else KEYS[word]))
        else:
            chosen.append(word.replace("{m}", str(chance.randrange(10**6))))
    return chosen


def too_large(found: dict[str, tuple[int, bool]]) -> list[str]:
    return [
        key
        for key, (size, stream) in found.items()
        if size > (BIG if key.startswith("big:") else (STREAMS if stream else CAP) + BROUGHT)
    ]


@pytest.fixture
def wire(fleet: Fleet, engine_name: str) -> Iterator[Wire]:
    with fleet.engine(engine_name, "caps").wire() as wire:
        wire.ask("FLUSHALL")
        numbers = [str(i) for i in range(BIG)]
        wire.ask("HSET", "big:h", *(word for number in numbers for word in (number, "1")))
        wire.ask("RPUSH", "big:l", *numbers)
        wire.ask("SADD", "big:s", *numbers)
        wire.ask("ZADD", "big:z", *(word for number in numbers for word in (number, number)))
        for _ in numbers:
            wire.ask("XADD", "big:x", "*", "f", "v")
        yield wire
        wire.ask("FLUSHALL")


@pytest.mark.parametrize(("seed", "apart"), [(0, 100.0), (1, 100.0), (2, 0.001)])
def test_no_sequence_of_writes_passes_the_cap(wire: Wire, seed: int, apart: float) -> None:
    chance = random.Random(seed)
    rule = CollectionsSettings(CAP, STREAMS, 0.999, 5).bind("caps", NO_WORDS, Binding(STANDARD))
    guarded = Guarded(wire, rule, apart)
    refused = set()
    for words in chance.choices(templates(), k=200):
        argv = filled(chance, words)
        keys = [word for word in argv[1:] if word in ALL_KEYS]
        before = sizes(wire, keys)
        if not guarded.run([word.encode() for word in argv]):
            refused.add(words[0])
            assert sizes(wire, keys) == before
        assert too_large(sizes(wire, keys)) == [], argv
    assert refused & DERIVED.keys()
    wire.ask("SELECT", "1")
    moved = sizes(wire, ALL_KEYS)
    wire.ask("FLUSHDB")
    assert too_large({key.removeprefix("big:"): size for key, size in moved.items()}) == []


def test_a_stream_that_is_trimmed_now_and_then_is_not_capped(wire: Wire) -> None:
    rule = CollectionsSettings(None, STREAMS, 0.999, 5).bind("caps", NO_WORDS, Binding(STANDARD))
    for options in ("MAXLEN ~ 10 LIMIT 1", "LIMIT 1 MAXLEN ~ 10", "MAXLEN ~ 10 LIMIT 99", "MINID ~ 1 LIMIT 1"):
        wire.ask("DEL", "x")
        guarded = Guarded(wire, rule)
        passed = sum(guarded.run([b"XADD", b"x", *options.encode().split(), b"*", b"f", b"v"]) for _ in range(60))
        assert wire.ask("XLEN", "x") == b":%d\r\n" % passed
        assert passed == STREAMS + 1, options


def test_no_payload_passes_the_cap(wire: Wire) -> None:
    rule = CollectionsSettings(CAP, STREAMS, 0.999, 5).bind("caps", NO_WORDS, Binding(STANDARD))
    guarded = Guarded(wire, rule)
    for words in (["HSET", "h", "a", "1"], ["RPUSH", "l", "a"], ["SADD", "s", "1"], ["ZADD", "z", "1", "a"]):
        wire.ask(*words)
    wire.ask("XADD", "x", "*", "f", "v")
    for kind in KEYS:
        for key, passes in ((kind, True), (f"big:{kind}", False)):
            frame = wire.ask("DUMP", key)
            payload = frame[frame.index(b"\r\n") + 2 : -2]
            assert guarded.run([b"RESTORE", b"restored:" + kind.encode(), b"0", payload, b"REPLACE"]) is passes, key
    assert too_large(sizes(wire, [f"restored:{kind}" for kind in KEYS])) == []
