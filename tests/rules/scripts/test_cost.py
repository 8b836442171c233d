"""Reading a script takes steps in proportion to its text, whatever the text: no text stalls a worker.

Texts are made of fragments that are repeated, nested, numbered and listed. Steps are counted, not seconds.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.rules.scripts.lua_tokens import MOST_STEPS
from proxy.rules.scripts.own_keys import OwnKeys
from proxy.rules.scripts.text import MOST_PLACES, MOST_SPREAD, read_script
from tests.conftest import seeds
from tests.steps import steps

TOKENS = (
    *b"a b KEYS ARGV keys self arg local function for in do if repeat end until and return redis call".split(),
    *b"1 1.5 'x' [[x]] {} () [1] ( ) [ ] { } = , ; . : .. # - == + ' \" \\ [==[ --".split(),
    *b"unpack ipairs pairs #KEYS KEYS[1] KEYS[ a.b a:b a(b) a'b' x%d 'x%d'".split(),
    b"--[[x]]",
    b"--x\n",
    b"\n",
)
STATEMENTS = (
    b"unpack(KEYS) ",
    b"ipairs(KEYS) ",
    b"local a = KEYS[1] ",
    b"local a%d = 'x' ",
    b"for i, k in ipairs(KEYS) do ",
    b"local function g(keys, args) ",
    b"function a.b.c(x, y) ",
    b"redis.call('GET', ",
    b"redis.call('GET', KEYS[%d]) ",
    b"redis.call('SET', 'x%d', ARGV[1]) ",
    b"redis.call('MGET', 'x%d', unpack(KEYS)) ",
    b"for i, k in ipairs(KEYS) do redis.call('DEL', KEYS[i]) end ",
    b"redis.call(a, b) ",
    b"redis.register_function('f', g) ",
    b"redis.register_function('f%d', function(keys, args) ",
    b"redis.register_function{function_name='f%d', callback=g} ",
    b"redis.register_function{callback=function(keys) ",
)
NUMBER = re.compile(rb"%d")
SMALL, TIMES = 500, 4
AT_MOST_TIMES = 4.8
"""As many steps for a text of four times the size; a little more, since the first of a kind takes less."""
STEPS_OF_A_BYTE = 100
PYTHON_LIBRARIES = (
    "redis",
    "valkey",
    "limits",
    "dramatiq",
    "rq",
    "rq_scheduler",
    "arq",
    "huey",
    "redis_lock",
    "cashews",
)


def some(random: Random, most: int, fragments: Sequence[bytes]) -> bytes:
    return random.choice((b"", b" ")).join(random.choices(fragments, k=random.randint(1, most)))


def family(random: Random, fragments: Sequence[bytes]) -> list[bytes]:
    """One text in two sizes."""
    kind = random.choice(("repeated", "nested", "listed"))
    unit, head, tail = (some(random, most, fragments) for most in (3, 2, 2))
    head, tail = random.choice(((b"", b""), (head, b""), (b"", tail), (head, tail)))
    closing = {b"(": b")", b"[": b"]", b"{": b"}"}
    opened = [closing[bytes((each,))] for each in unit if bytes((each,)) in closing]
    closes = b"".join(reversed(opened)) + b" end" * len(re.findall(rb"\b(?:function|do|if)\b", unit))

    def of(size: int) -> bytes:
        count = max(1, size // (len(unit) + (len(closes) if kind == "nested" else 2)))
        units = [NUMBER.sub(b"%d" % i, unit) for i in range(count)]
        body = (b", " if kind == "listed" else b" ").join(units)
        return b" ".join((head, body, tail, closes * count if kind == "nested" else b""))

    return [of(SMALL), of(SMALL * TIMES)]


@pytest.mark.parametrize("seed", seeds(4, 100))
def test_reading_takes_steps_in_proportion_to_the_text(seed: int) -> None:
    random = Random(seed)
    for number in range(40):
        small, large = family(random, (STATEMENTS, TOKENS, (*STATEMENTS, *TOKENS))[number % 3])
        few, many = steps(partial(read_script, small)), steps(partial(read_script, large))
        assert many < max(AT_MOST_TIMES * few, STEPS_OF_A_BYTE * SMALL), (large[:120], few, many)
        assert many < STEPS_OF_A_BYTE * len(large), (large[:120], few, many)


@pytest.mark.parametrize("seed", seeds(2, 20))
def test_its_keys_are_found_in_proportion_to_text_and_keys(seed: int) -> None:
    random = Random(seed)
    for _ in range(20):
        taken = []
        for text in family(random, STATEMENTS):
            count = len(text) // 20
            run = [b"EVAL", text, b"%d" % count, *(b"k%d" % i for i in range(count)), b"x"]
            scripts = OwnKeys()

            def act(run: list[bytes] = run, scripts: OwnKeys = scripts) -> None:
                for _ in range(3):
                    command = Command(STANDARD, run)
                    scripts.note(command)
                    scripts.of(command, STANDARD)

            taken.append(steps(act))
        assert taken[1] < max(AT_MOST_TIMES * taken[0], STEPS_OF_A_BYTE * SMALL), (text[:120], taken)


def test_a_run_judges_a_bounded_number_of_calls() -> None:
    many = b"".join(b"redis.call('MGET', 'x%d', unpack(KEYS)) " % i for i in range(MOST_SPREAD))
    assert not read_script(many).dynamic
    assert "gives all its keys" in read_script(many + b"redis.call('DEL', unpack(ARGV))").dynamic
    assert not read_script(many * 3).dynamic, "the same calls"
    assert not read_script(b"redis.call('GET', 'x') " * MOST_PLACES).dynamic
    assert "places" in read_script(b"redis.call('GET', 'x') " * (MOST_PLACES + 1)).dynamic


def test_the_budget_bounds_whatever_is_left() -> None:
    for text in (b"a ", b"--\n", b"redis.call(", b"a:a:", b"( ", b"x = KEYS[1] "):
        assert steps(partial(read_script, text * (250_000 // len(text)))) < 40 * MOST_STEPS, text


def scripts_of_libraries() -> Iterator[tuple[str, bytes]]:
    specs = [importlib.util.find_spec(name) for name in PYTHON_LIBRARIES]
    folders = [Path(spec.origin).parent for spec in specs if spec is not None and spec.origin is not None]
    folders += [Path(each) for each in os.environ.get("NODE_PATH", "").split(os.pathsep) if each]
    for folder in folders:
        for file in folder.rglob("*"):
            if file.suffix in (".py", ".lua", ".js", ".cjs") and file.is_file():
                text = file.read_bytes()
                quoted = re.findall(rb'"""(.*?)"""|`([^`]*)`', text, re.DOTALL)
                texts = [text] if file.suffix == ".lua" else [each for pair in quoted for each in pair]
                yield from ((str(file), each) for each in texts if re.search(rb"redis\.p?call", each))


def test_scripts_of_well_known_libraries_stay_far_below_the_budget() -> None:
    read = 0
    for name, text in scripts_of_libraries():
        assert not re.search("too long|more than", read_script(text, MOST_STEPS // 2).dynamic), name
        read += 1
    assert read > 3, "redis-py has scripts"
