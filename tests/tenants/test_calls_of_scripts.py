"""Calls of scripts that are allowed, with the arguments that a hostile tenant chooses for them: each key is declared.

What is allowed does not depend on a run, so it must hold for each one.
"""

from __future__ import annotations

import random

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.commands.tenant_commands import Offer, RequestNames, decision_in_scripts
from proxy.policy.tenant_scripts import TenantScripts
from proxy.rules.scripts.memory import ScriptMemory
from tests.conftest import seeds
from tests.tenants.invocations import INVOCATIONS, MARK, sent

LITERALS = ("1", "2", "3", "01", "-1", "STORE", "store", "COUNT", "WEIGHTS", "STREAMS", "GET", "BY", "DB", "AND", "km")
ARGUMENTS = (*LITERALS, "globex:a", "acme:a")
KEYS = ("\0first", "\0second", "\0third")
"""Declared keys: nothing else begins so."""
AS_KEY = {"KEYS[1]": KEYS[:1], "key": KEYS[:1], "KEYS[2]": KEYS[1:2], "KEYS[i]": KEYS, "KEYS[#KEYS]": KEYS[2:]}
SEVERAL = ("unpack(ARGV)", "unpack(ARGV, 2)", "unpack(t)", "f()", "(f())", "unpack(KEYS)")
"""Expressions that may stand for any number of values, where they are the last ones."""
TEXT = "local i, key = 1, KEYS[1] local t = {1} local function f() return 1, 2 end return redis.call(%s)"


def has_keys(words: list[str]) -> bool:
    """Whether scripts may call the command of an invocation, and it has keys."""
    decision = decision_in_scripts(STANDARD.spec_of(sent(words)).name)
    return isinstance(decision, Offer) and decision.request is RequestNames.KEYS


CALLED = list(filter(has_keys, INVOCATIONS))


def shown(chance: random.Random, words: list[str]) -> list[str]:
    """The arguments of a call in a script: those of an invocation, with some of them changed."""
    named = [chance.choice((*AS_KEY,)) if MARK.fullmatch(word) else f"'{word}'" for word in words]
    for _ in range(chance.choice((0, 1, 1, 2))):
        place = chance.randrange(1, len(named) + 1)
        other = chance.choice((*AS_KEY, *SEVERAL, "ARGV[1]", "ARGV[2]", f"'{chance.choice(LITERALS)}'"))
        change = chance.randrange(4)
        if change == 0:
            named[place:] = [chance.choice(SEVERAL)]
        else:
            named[place : place + change - 1] = [other]
    return named


def values(chance: random.Random, word: str, *, last: bool) -> list[str]:
    """What Lua makes of such an argument in one run."""
    if word in AS_KEY:
        return [chance.choice(AS_KEY[word])]
    if word.startswith("'"):
        return [word[1:-1]]
    source = KEYS if word == "unpack(KEYS)" else ARGUMENTS
    count = chance.randrange(9) if last and word in SEVERAL else 1
    return [chance.choice(source) for _ in range(count)]


@pytest.mark.parametrize("seed", seeds(2, 20))
def test_a_call_that_is_allowed_has_declared_keys_only_in_each_run(seed: int) -> None:
    chance, judge, allowed = random.Random(seed), TenantScripts(STANDARD, ScriptMemory()), set()
    for words in CALLED * 60:
        call = shown(chance, words)
        script = Command(STANDARD, [b"EVAL", (TEXT % ", ".join(call)).encode(), b"0"])
        if judge.refusal(script, in_transaction=False) is not None:
            continue
        allowed.add(words[0])
        for _ in range(6):
            run = [value for i, word in enumerate(call, 1) for value in values(chance, word, last=i == len(call))]
            command = Command(STANDARD, [value.encode() for value in run])
            if not command.spec.takes(len(run)):
                continue
            keys = {index for index, _ in STANDARD.keys_of(command.spec, command.argv) or ()}
            assert keys == {index for index, value in enumerate(run) if value in KEYS}, (call, run)
    assert len(allowed) > 100
