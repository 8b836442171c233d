"""No sequence of commands brings a collection over the cap of its schema entry, except by the members of one write: on
real engines, through whole policies, with every command that makes a collection grow or writes a whole one. Where
``collections`` has a cap for it, too, the smaller one holds, and one look-up serves both rules."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest

from proxy.commands.command import Command
from proxy.commands.derived import DERIVED
from proxy.commands.table import STANDARD
from proxy.policy.compile import CompiledPolicy
from proxy.policy.decision import Decision
from proxy.rules.context import Context
from proxy.rules.memory import Memory
from proxy.rules.verdict import End, Pass, Procedure, Refuse
from tests.conftest import Fleet
from tests.policy.given import compile_policy, policy
from tests.resp import Wire
from tests.rules.collections import test_caps_hold as everywhere
from tests.rules.collections.test_caps_hold import ALL_KEYS, BROUGHT, filled, sizes, templates
from tests.rules.given import context

ENTRIES = {"h": 6, "l": 5, "s": 7, "z": 8, "x": 12}
"""The cap of each entry, whatever the type of its keys: COPY and RENAME bring any type to any key."""
TRIMMED = "lists: trim, "
SCHEMA = """
schema:
  hashes: {key: "h{n:int}", size: {members: 6, unknown: refuse}}
  lists: {key: "l{n:int}", size: {members: 5, TRIMunknown: refuse}}
  sets: {key: "s{n:int}", size: {members: 7}}
  boards: {key: "z{n:int}", size: {members: 8}}
  streams: {key: "x{n:int}", size: {members: 12}}
defaults: {mode: enforce}
rules:
  of-schema: {schema: size, sample: 99%}
"""
BESIDE = {
    "alone": "",
    "with larger caps": "\n  everywhere: {collections: {members: 30, streams: 30, sample: 99%}}",
    "with smaller caps": "\n  everywhere: {collections: {members: 4, streams: 4, sample: 99%}}",
    "with audited caps": "\n  everywhere: {collections: {members: 4, streams: 4, sample: 99%}, mode: audit}",
}


class Guarded:
    """An engine behind a policy: commands one by one, so many seconds apart."""

    def __init__(self, wire: Wire, bound: CompiledPolicy, apart: float) -> None:
        self.wire = wire
        self.bound = bound
        self.apart = apart
        self.now = 0.0
        self.looked = 0
        """How often the last command made Keyrail ask."""

    def context(self) -> Context:
        found = context()
        found.now = self.now
        return found

    def run(self, argv: Sequence[bytes]) -> Refuse | None:
        """The refusal of the command, or None if it was let through."""
        self.now += self.apart
        self.looked = 0
        command = Command(STANDARD, argv)
        decision = self.bound.judge(command, self.context())
        background = list(decision.background)
        hidden = decision.hidden
        while decision.pause is not None:
            assert isinstance(decision.verdict, Procedure)
            decision = self.bound.resume(decision.pause, self.end_of(decision.verdict), self.context())
            background += decision.background
            hidden = decision.hidden
        if isinstance(decision.verdict, Refuse):
            return decision.verdict
        reply = self.wire.ask(*argv)
        for surrounded in hidden:
            if surrounded.surround.notice is not None and not reply.startswith(b"-"):
                surrounded.surround.notice(reply)
            for following in surrounded.surround.conclude(reply, ()):
                self.wire.ask(*following)
        for each in background:
            self.end_of(each.procedure)
        return None

    def end_of(self, procedure: Procedure) -> End:
        steps = procedure.steps()
        try:
            questions = next(steps)
            while True:
                self.looked += 1
                questions = steps.send([self.wire.ask(*question) for question in questions])
        except StopIteration as stop:
            end: End = stop.value
            return end


def bound_to(text: str) -> CompiledPolicy:
    return compile_policy(policy(text), STANDARD, memory=Memory())


def cap_of(key: str, beside: str, stream: bool) -> int | None:
    caps = [ENTRIES[key[0]]] if not key.startswith("big:") else []
    caps += (
        [{"with larger caps": 30, "with smaller caps": 4}[beside]]
        if beside
        in {
            "with larger caps",
            "with smaller caps",
        }
        else []
    )
    del stream  # an entry's cap is for any type
    return min(caps, default=None)


@pytest.fixture
def wire(fleet: Fleet, engine_name: str) -> Iterator[Wire]:
    yield from everywhere.wire.__wrapped__(fleet, engine_name)  # type: ignore[attr-defined]  # a fixture's function


@pytest.mark.parametrize("trims", [False, True], ids=["refused", "trimmed"])
@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("apart", [100.0, 0.001])
def test_no_sequence_of_commands_passes_the_cap_of_an_entry(wire: Wire, beside: str, apart: float, trims: bool) -> None:
    chance = random.Random(f"{beside} {apart} {trims}")
    text = (SCHEMA + BESIDE[beside]).replace("TRIM", TRIMMED if trims else "")
    guarded = Guarded(wire, bound_to(text), apart)
    refused = set[str]()
    present = sizes(wire, ALL_KEYS)
    for words in chance.choices(templates(), k=150):
        argv = filled(chance, words)
        keys = [word for word in argv[1:] if word in ALL_KEYS]
        refusal = guarded.run([word.encode() for word in argv])
        found = sizes(wire, keys)
        if refusal is not None:
            refused.add(words[0])
            assert found == {key: present[key] for key in keys}, argv
        assert guarded.looked <= 1, argv
        for key, (size, stream) in found.items():
            cap = cap_of(key, beside, stream)
            if cap is not None and size > present[key][0]:
                assert size <= cap + BROUGHT, argv
        present.update(found)
    assert refused & DERIVED.keys()
    assert refused - DERIVED.keys()


def refusal(bound: CompiledPolicy, text: str, *answers: bytes) -> str:
    """What a command is refused with, whose questions have these answers; empty if it passes."""
    decision: Decision = bound.judge(Command(STANDARD, text.encode().split()), context())
    left = list(answers)
    while decision.pause is not None:
        assert isinstance(decision.verdict, Procedure)
        steps = decision.verdict.steps()
        asked = next(steps)
        with pytest.raises(StopIteration) as stop:
            steps.send([left.pop(0) for _ in asked])
        decision = bound.resume(decision.pause, stop.value.value, context())
    assert not left
    if isinstance(decision.verdict, Refuse):
        return decision.verdict.error.decode().removeprefix("-DENIED keyrail/").removesuffix("\r\n")
    assert isinstance(decision.verdict, Pass)
    return ""


def test_single_writes_count_together_and_the_error_names_the_entry() -> None:
    """Eight HSETs passed a cap of five, which was one of a single write."""
    bound = bound_to("""
        schema: {cart: {key: "cart:{id}", size: {members: 5}}}
        rules: {sizes: {schema: size, mode: enforce}}
        """)
    for i in range(6):
        bound.judge(Command(STANDARD, [b"HSET", b"cart:1", b"f%d" % i, b"v"]), context())
    assert refusal(bound, "HSET cart:1 f6 v", b":6\r\n") == (
        "sizes: the hash 'cart:1' (argument 1 of HSET) has 6 fields, 1 more than the limit of 5 for cart (cart:{id}); "
        "remove fields, or split it over several keys"
    )
    assert refusal(bound, "HSET cart:2 a 1 b 1 c 1 d 1 e 1 f 1") == (
        "sizes: the command writes 6 fields to the hash 'cart:2' (argument 1 of HSET), 1 more than the limit of 5 for "
        "cart (cart:{id}); split it over several keys of at most 5 fields each"
    )


DESTINATIONS = """
schema:
  few: {key: "few:{id}", size: {members: 2, UNKNOWN}}
  some: {key: "some:{id}", size: {members: 4, UNKNOWN}}
  free: {key: "free:{id}"}
rules: {sizes: {schema: size, mode: enforce}}
"""


@pytest.mark.parametrize(
    ("text", "answers", "owner"),
    [
        ("COPY some:1 few:1", [b":3", b":0", b":0", b":0", b":0"], "few"),
        ("COPY some:1 free:1", [], ""),
        ("COPY free:1 some:1", [b":5", b":0", b":0", b":0", b":0"], "some"),
        ("RENAME few:1 some:1", [b":4", b":0", b":0", b":0", b":0"], ""),
        ("RENAME few:1 some:1", [b":5", b":0", b":0", b":0", b":0"], "some"),
        ("MOVE few:1 1", [b":3", b":0", b":0", b":0", b":0"], "few"),
        ("SUNIONSTORE few:1 free:1 free:2", [b":1", b":2"], "few"),
        ("SUNIONSTORE free:1 few:1 few:2", [], ""),
        ("SORT free:1 STORE some:1", [b":5", b":0", b":0"], "some"),
        ("ZRANGESTORE few:1 free:1 0 1", [b":9"], ""),
    ],
)
def test_the_entry_of_the_destination_counts(text: str, answers: list[bytes], owner: str) -> None:
    said = refusal(bound_to(DESTINATIONS.replace("UNKNOWN", "")), text, *(answer + b"\r\n" for answer in answers))
    assert (f" for {owner} ({owner}:{{id}}); " in said) if owner else said == ""


@pytest.mark.parametrize(
    ("text", "grows"), [("SMOVE free:1 few:1 m", b"few:1"), ("LMOVE free:1 few:1 LEFT RIGHT", b"few:1")]
)
def test_members_that_move_count_where_they_go(text: str, grows: bytes) -> None:
    bound = bound_to(DESTINATIONS.replace("UNKNOWN", ""))
    argv = text.encode().split()
    for _ in range(3):
        bound.judge(Command(STANDARD, argv), context())
    said = refusal(bound, text, b":3\r\n")
    assert f"'{grows.decode()}' (argument 2 of " in said
    assert "for few (few:{id})" in said
    for _ in range(9):
        assert refusal(bound, text.replace("few:1", "free:2")) == ""


@pytest.mark.parametrize(("unknown", "refused"), [("pass", False), ("refuse", True)])
def test_where_sources_are_not_known_the_entry_of_the_destination_decides(unknown: str, refused: bool) -> None:
    bound = bound_to(DESTINATIONS.replace("UNKNOWN", f"unknown: {unknown}"))
    inside = context()
    inside.no_wait = "it is inside MULTI"
    verdict = bound.judge(Command(STANDARD, b"RENAME free:1 few:1".split()), inside).verdict
    assert isinstance(verdict, Refuse) is refused
    assert bound.judge(Command(STANDARD, b"RENAME few:1 free:1".split()), inside).verdict == Pass()


def test_a_write_is_refused_once_by_a_rule_that_only_counts() -> None:
    """The two places of the rule in the order are one rule: audit counts what enforce would refuse, once."""
    bound = bound_to("""
        schema: {cart: {key: "cart:{id}", size: {members: 3, members_per_write: 2}}}
        rules: {sizes: {schema: size, mode: audit}}
        """)
    decision = bound.judge(Command(STANDARD, b"HSET cart:1 a 1 b 2 c 3 d 4 e 5".split()), context())
    assert [(hit.rule, hit.what) for hit in decision.hits] == [("sizes", "refused")]
    assert decision.background == ()


def test_the_length_after_a_trim_is_the_one_that_others_know() -> None:
    """A rule that refuses reads the length of a list in the reply to a push that another rule trims."""
    bound = bound_to("""
        schema: {jobs: {key: "jobs:{id}", size: {members: 10, lists: trim}}}
        rules:
          sizes: {schema: size, mode: enforce}
          caps: {collections: {members: 14}, mode: enforce}
        """)
    for _ in range(9):
        decision = bound.judge(Command(STANDARD, b"RPUSH jobs:1 a b c d".split()), context())
        assert isinstance(decision.verdict, Pass)
        for each in decision.hidden:
            each.surround.conclude(b":14\r\n", ())
            if each.surround.notice is not None:
                each.surround.notice(b":14\r\n")
