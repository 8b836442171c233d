"""No error that a script or a function makes up takes a key's TTL away, or changes anything for its client.

A generator writes scripts that write and then return an error, of each word that Keyrail knows from its table and of
others, alone and inside an array, raised and returned; runs them in each way and in each state of a connection; and
plays the same to an engine directly: unless a command is refused, its client receives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from proxy.commands import error_texts
from proxy.commands.error_texts import ErrorTexts
from tests.conftest import Fleet
from tests.engines import Engine
from tests.keyrail_process import DIRECT, packaged_policy
from tests.resp import Wire, eventually, pack

pytestmark = pytest.mark.skipif(DIRECT, reason="guardrails are Keyrail's own")

ROLE, EQUIVALENT = "forged errors", "forged errors played directly"
REFUSING = """
keyrail: 1
defaults: {mode: enforce}
rules:
  given: {lifetime: {default: 5m, types: all, without_proof: refuse}}
"""
WORDS = sorted(
    {
        beginning[1:].decode().rstrip("\r ")
        for row in vars(error_texts).values()
        if isinstance(row, ErrorTexts)
        for beginning in row.beginnings
    }
    | {"NOSCRIPT No matching script. Please use EVAL.", "OOM", "MISCONF", "NOREPLICAS", "UNKILLABLE", "MOVED 1 h:1"}
)
WRITES = (
    "redis.call('SET', KEYS[1], 'v')",
    "redis.call('LPUSH', KEYS[1], 'v')",
    "redis.call('HSET', KEYS[1], 'f', 'v')",
    "redis.call('SET', KEYS[1], 'v', 'EX', 7) redis.call('PERSIST', KEYS[1])",
)
RETURNS = (
    "return redis.error_reply([[{text}]])",
    "return {{err = [[{text}]]}}",
    "return {{1, redis.error_reply([[{text}]])}}",
    "return {{{{redis.error_reply([[{text}]])}}}}",
    "error({{err = [[{text}]]}})",
    "error([[{text}]])",
    "redis.call('HINCRBY', KEYS[1], 'f', [[{text}]])",
)
STATES: dict[str, tuple[list[bytes], list[bytes]]] = {
    "plain": ([], []),
    "MULTI": ([pack("MULTI")], [pack("EXEC")]),
    "private": ([pack("CLIENT", "ID")], []),
    "WATCH": ([pack("WATCH", "user:w")], [pack("UNWATCH")]),
    "WATCH and MULTI": ([pack("WATCH", "user:w"), pack("MULTI")], [pack("EXEC")]),
    "a MULTI that fails": ([pack("MULTI"), pack("LPUSH", "user:string", "x")], [pack("EXEC")]),
}
"""What is sent before and after a script."""
ROUNDS = 60
FUNCTION = "#!lua name=forged{n}\nredis.register_function('f{n}', function(KEYS) {script} end)\n"


def scripts(random: Random) -> list[str]:
    """One for each word, and each of the other parts with some word."""
    found = []
    for word in WORDS:
        script = f"{random.choice(WRITES)} {random.choice(RETURNS)}"
        found.append(script.replace("{text}", f"{word} x").replace("{{", "{").replace("}}", "}"))
    return found


def load(wire: Wire, texts: Sequence[str]) -> tuple[list[bytes], bool]:
    """Load the scripts as scripts and, where the engine has them, as functions: their digests, and whether it has."""
    digests = [wire.ask("SCRIPT", "LOAD", text).split(b"\r\n")[1] for text in texts]
    loaded = [
        wire.ask("FUNCTION", "LOAD", "REPLACE", FUNCTION.format(n=n, script=text)) for n, text in enumerate(texts)
    ]
    refused = [each for each in loaded if each.startswith(b"-")]
    assert not refused or refused[0].startswith(b"-ERR unknown command"), refused[0]
    return digests, not refused


def program(random: Random, texts: Sequence[str], digests: Sequence[bytes], *, functions: bool) -> list[list[bytes]]:
    """Writes of one client each with its commands; the key of each script is new."""
    found = []
    for number in range(ROUNDS):
        n = random.randrange(len(texts))
        ways: list[tuple[str, str | bytes]] = [("EVAL", texts[n]), ("EVALSHA", digests[n])]
        ways += [("FCALL", f"f{n}")] if functions else []
        runs = [pack(*random.choice(ways), 1, f"user:{number}:{i}") for i in range(random.choice((1, 1, 3)))]
        before, after = STATES[random.choice([*STATES])]
        whole = [*before, *runs, *after]
        found += [whole] if random.random() < 0.5 else [[each] for each in whole]
    return found


def play(wire: Wire, reads: Sequence[Sequence[bytes]]) -> list[bytes]:
    heard = []
    for read in reads:
        wire.send(b"".join(read))
        heard += wire.frames(len(read))
    return heard


def for_ever(engine: Engine) -> list[bytes]:
    """The keys without a TTL."""
    keys = engine.do("KEYS", "user:*")
    assert isinstance(keys, list)
    return sorted(key for key in keys if isinstance(key, bytes) and engine.do("TTL", key) == -1)


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("policy", ["refuse", "cache.yaml"])
def test_no_made_up_error_leaves_a_key_without_its_lifetime(
    fleet: Fleet, engine_name: str, policy: str, protocol: int, tmp_path: Path
) -> None:
    random = Random(f"{policy} {protocol}")
    texts = scripts(random)
    engine, twin = (fleet.engine(engine_name, role) for role in (ROLE, EQUIVALENT))
    for each in (engine, twin):
        each.do("FLUSHALL")
        each.do("SET", "user:string", "x", "EX", 100)
    file = tmp_path / "policy.yaml"
    file.write_text(REFUSING if policy == "refuse" else packaged_policy(policy).read_text(), encoding="utf-8")
    keyrail = fleet.keyrail(engine.name, policy=file, role=ROLE)
    with keyrail.wire(protocol) as wire, twin.wire(protocol) as direct:
        digests, functions = load(wire, texts)
        assert load(direct, texts) == (digests, functions)
        reads = program(random, texts, digests, functions=functions)
        wire.ask("LPUSH", "user:warm", "x")
        eventually(lambda: not wire.ask("LPUSH", "user:warm", "x").startswith(b"-"))
        heard, expected = play(wire, reads), play(direct, reads)
        ran = 0
        for mine, theirs in zip(heard, expected, strict=True):
            if b"DENIED" not in mine and b"EXECABORT" not in mine and not mine.startswith(b":"):
                assert mine == theirs
                ran += 1
        assert ran > ROUNDS
    try:
        eventually(lambda: for_ever(engine) == [], 3)
    except AssertionError:
        pytest.fail(f"without a TTL: {for_ever(engine)}", pytrace=False)
    kept = engine.do("DBSIZE")
    assert isinstance(kept, int)
    assert kept > ROUNDS / 2, "too many were refused"
