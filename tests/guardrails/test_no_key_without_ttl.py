"""Under a policy that promises it, every key that exists has a TTL in the end: each command that creates keys, in each
context that a client can send it in.

The packaged policies ``cache.yaml`` and ``strict.yaml`` make the promise. What they refuse for its sake is declared
here, and nothing else is refused: a lifetime is either given or the command does not run.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.commands.table import STANDARD
from tests.conftest import Fleet
from tests.engines import Engine
from tests.guardrails.creating import CONTEXTS, LIBRARY, SCRIPT, Case, Context, cases, line
from tests.guardrails.lifetimes import immortal
from tests.keyrail_process import DIRECT, Keyrail, packaged_policy
from tests.resp import Closed, Wire, eventually, pack

pytestmark = pytest.mark.skipif(DIRECT, reason="guardrails are Keyrail's own")

ROLE = "every key has a TTL"
GIVEN_SECONDS = 5.0
BLOCKING = {"BLMOVE", "BRPOPLPUSH"}
LARGE = b"v" * 1_100_000
PROOF = """
keyrail: 1
defaults: {mode: enforce}
rules:
  given: {lifetime: {default: 5m, max: 1d, types: all, without_proof: refuse}}
"""
RULES = {"cache": "nothing-for-ever", "strict": "lifetimes", "proof": "given"}
"""The rule of each policy that gives TTLs. ``proof`` has no other, so that nothing is refused for another reason."""


def _pairs() -> list[object]:
    """Each context under each policy. The default run takes one policy for each context in turn."""
    return [
        pytest.param(
            context, policy, id=f"{context}-{policy}", marks=[] if at % len(RULES) == number else [pytest.mark.long]
        )
        for at, context in enumerate(CONTEXTS)
        for number, policy in enumerate(RULES)
    ]


def expected_refusals(policy: str, context: Context) -> set[str]:
    """Commands that the rule refuses."""
    refused = set()
    if policy != "strict":
        refused = {"MOVE"} if "another database" in context.name else {"MOVE", "COPY"}  # the key appears elsewhere
    if policy == "strict":
        refused |= {"PERSIST", "GETEX"}
    if policy != "cache" and not context.queues:
        refused |= BLOCKING  # whoever creates the key while they wait
    return refused


@pytest.fixture
def engine(fleet: Fleet, engine_name: str) -> Iterator[Engine]:
    engine = fleet.engine(engine_name, ROLE)
    engine.do("ACL", "SETUSER", "ann", "on", ">ann", "~*", "&*", "+@all")
    engine.do("FLUSHALL")
    yield engine
    engine.do("ACL", "DELUSER", "ann")


def prepare(engine: Engine, found: list[Case], database: int) -> None:
    """What is there before has a TTL."""
    with engine.wire() as direct:
        direct.ask("SELECT", database)
        for case in found:
            for argv in case.before:
                assert not direct.ask(*argv).startswith(b"-"), argv
                assert direct.ask("EXPIRE", argv[1], 1000) == b":1\r\n"
        direct.ask("SCRIPT", "LOAD", SCRIPT)
        direct.ask("FUNCTION", "LOAD", "REPLACE", LIBRARY)


def supported(engine: Engine, value: bytes) -> list[Case]:
    with engine.wire() as direct:
        direct.send(pack("SET", "user:dumped", "v", "EX", 1000) + pack("DUMP", "user:dumped"))
        dump = direct.frames(2)[1].split(b"\r\n", 1)[1][:-2]
        listed = direct.value("COMMAND")
    assert isinstance(listed, list)
    names = {entry[0].decode().upper() for entry in listed if isinstance(entry, list) and isinstance(entry[0], bytes)}
    return [case for case in cases(value, dump) if case.name in names]


def send_all(wire: Wire, context: Context, found: list[Case]) -> list[bytes]:
    """The replies to all commands, one after the other on one connection."""
    sent = [pack(*words) for words in (line(each, found[0]) for each in context.once)]
    for case in found:
        sent += [pack(*line(each, case)) for each in context.before]
        sent.append(pack(*case.argv))
        sent += [pack(*line(each, case)) for each in context.after]
    sent += [pack(*line(each, found[0])) for each in context.finally_]
    wire.send(b"".join(sent) + pack("ECHO", "end"))
    if context.leaves:
        return []
    frames = [b""]
    while frames[-1] != b"$3\r\nend\r\n":
        try:
            frames.append(wire.frame())
        except Closed:
            break
    return frames


def play(keyrail: Keyrail, context: Context, found: list[Case]) -> list[bytes]:
    # A large command that is refused takes its connection along.
    heard = []
    for part in [[case] for case in found] if context.large else [found]:
        with keyrail.wire(context.protocol) as wire:
            if context.user:
                wire.say("AUTH", context.user, context.user)
            heard += send_all(wire, context, part)
    return heard


@pytest.fixture
def keyrail(fleet: Fleet, engine: Engine, policy: str, tmp_path: Path) -> Keyrail:
    file = tmp_path / "policy.yaml"
    file.write_text(PROOF if policy == "proof" else packaged_policy(f"{policy}.yaml").read_text(), encoding="utf-8")
    return fleet.keyrail(engine.name, policy=file, role=ROLE)


@pytest.mark.parametrize(("context", "policy"), _pairs())
def test_every_key_has_a_ttl(engine: Engine, keyrail: Keyrail, policy: str, context: Context) -> None:
    found = supported(engine, LARGE if context.large else b"v")
    if context.large:
        found = [case for case in found if LARGE in case.argv]
    if context.leaves:
        # Its connection is closed at once, since it might wait for ever: the reply may be lost, as the policy says.
        found = [case for case in found if case.name not in BLOCKING]
    random.Random(context.name).shuffle(found)
    prepare(engine, found, 1 if context.name == "another database" else 0)
    heard = play(keyrail, context, found)
    if context.leaves:
        eventually(lambda: keyrail.metric("keyrail_clients") == 0)
    try:
        eventually(lambda: not immortal(engine), GIVEN_SECONDS)
    except AssertionError:
        pytest.fail(f"without a TTL: {immortal(engine)}", pytrace=False)
    refused = set(re.findall(f"DENIED keyrail/{RULES[policy]}: ([A-Z]+)", b"".join(heard).decode("utf-8", "replace")))
    if context.refused:
        assert not context.heard or refused >= {"HSET", "INCR", "LPUSH", "SUNIONSTORE", "EVAL"}
    elif context.large:
        assert policy != "cache" or not refused
    elif context.heard:
        assert refused == expected_refusals(policy, context)


def test_every_command_is_tried(engine: Engine) -> None:
    """All of this engine that may create a key, but those of modules."""
    with engine.wire() as direct:
        listed = direct.value("COMMAND")
    assert isinstance(listed, list)
    names = {
        entry[0].decode().upper()
        for entry in listed
        if isinstance(entry, list) and isinstance(entry[0], bytes) and "module" not in str(entry[2])
    }
    creating = {spec.name.partition("|")[0] for spec in STANDARD.specs[1:] if spec.creates}
    tried = {case.name for case in cases(b"v", b"")}
    assert names & creating <= tried
