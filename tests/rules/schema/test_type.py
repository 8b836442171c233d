"""Commands for another type than that of the key's schema entry are refused, for each key separately; types that the
arguments do not tell are not judged."""

import pytest

from proxy.commands.table import STANDARD
from proxy.rules.rule import Binding, Wording
from proxy.rules.schema.type import SchemaType, SchemaTypeSettings
from proxy.rules.verdict import PASS, Refuse
from proxy.schema.entries import KeyEntry, Schema
from proxy.schema.patterns import parse_pattern
from tests.rules.given import NO_WORDS, command, context, spec

SCHEMA = Schema(
    tuple(
        KeyEntry(name, parse_pattern(key), key_type, app=app)
        for name, key, key_type, app in (
            ("cart", "cart:{user:int}", "hash", "checkout"),
            ("jobs", "queue:{name}", "list", ""),
            ("board", "board:{name}", "zset", ""),
            ("page", "page:{path...}", "string", ""),
            ("misc", "misc:{rest...}", None, ""),
        )
    )
)
ALL = SchemaTypeSettings(reads=True)
WRITES = SchemaTypeSettings()


def rule(settings: SchemaTypeSettings = WRITES, wording: Wording = NO_WORDS) -> SchemaType:
    return settings.bind("key-types", wording, Binding(STANDARD, schema=SCHEMA))


def said(text: str, settings: SchemaTypeSettings = WRITES, wording: Wording = NO_WORDS) -> str:
    asked, given = rule(settings, wording), command(text)
    verdict = asked.judge(given, context()) if asked.touches(given.spec) else PASS
    if verdict == PASS:
        return ""
    assert isinstance(verdict, Refuse)
    return verdict.error.decode().removeprefix("-DENIED keyrail/key-types: ").removesuffix("\r\n")


def test_the_refusal_says_what_belongs_there() -> None:
    why = (
        "LPUSH is for a list, and the key 'cart:1' (argument 1 of LPUSH) belongs to checkout/cart (cart:{user:int}), "
        "of type hash"
    )
    assert said("LPUSH cart:1 x") == f"{why}; use a command for a hash"
    assert said("LPUSH cart:1 x", wording=Wording("it is ours", "ask us")) == f"{why}, and it is ours; ask us"
    assert said("ZUNIONSTORE cart:1 1 board:a").startswith(
        "ZUNIONSTORE is for a zset, and the key 'cart:1' (argument 1 "
    )


@pytest.mark.parametrize(
    ("text", "argument"),
    [
        ("SET cart:1 x", 1),
        ("set cart:1 x", 1),
        ("SETEX cart:1 5 x", 1),
        ("MSET page:a x cart:1 x", 3),
        ("INCR board:a", 1),
        ("PFADD cart:1 x", 1),
        ("SORT queue:a STORE board:a", 3),
        ("GEORADIUS board:a 0 0 1 m STORE cart:1", 7),
        ("GEOSEARCHSTORE cart:1 board:a FROMMEMBER m BYRADIUS 1 m", 1),
        ("SUNIONSTORE board:a x y", 1),
        ("BITOP NOT queue:a page:a", 2),
        ("LMOVE queue:a cart:1 LEFT RIGHT", 2),
        ("RPOPLPUSH board:a queue:a", 1),
        ("SMOVE x queue:a m", 2),
        ("XGROUP CREATE queue:a g $ MKSTREAM", 2),
        ("HMSET page:a f v", 1),
        ("JSON.SET cart:1 $ 1", 1),
        ("DEL cart:1", None),
        ("RENAME cart:1 queue:a", None),
        ("COPY cart:1 queue:a", None),
        ("RESTORE cart:1 0 x", None),
        ("EVAL return 1 cart:1", None),
        ("EXPIRE cart:1 5", None),
        ("HSET cart:1 f v", None),
        ("GEOADD board:a 1 2 m", None),
        ("SETBIT page:a 1 1", None),
        ("ZUNIONSTORE board:a 1 board:b", None),
        ("SET misc:a x", None),
        ("LPUSH misc:a x", None),
        ("LPUSH cart:x x", None),
        ("LPUSH cart", None),
        ("SADD nobodys m", None),
        ("ACME.PUT cart:1 x", None),
        ("PUBLISH cart:1 x", None),
    ],
)
def test_what_a_command_may_write(text: str, argument: int | None) -> None:
    assert (f"(argument {argument} of " in said(text)) == (argument is not None), said(text)
    assert bool(said(text)) == (argument is not None)


@pytest.mark.parametrize(
    "text",
    [
        "GET cart:1",
        "LRANGE cart:1 0 -1",
        "ZINTER 1 queue:a",
        "SORT cart:1",
        "MGET page:a cart:1",
        "XREADGROUP GROUP g c STREAMS page:a >",
    ],
)
def test_reads_count_only_where_they_are_asked_for(text: str) -> None:
    assert said(text) == ""
    assert said(text, ALL) != ""
    assert said("SORT queue:a", ALL) == said("ZINTER 1 board:a", ALL) == ""


def test_only_commands_for_certain_types_are_touched() -> None:
    assert rule().touches(spec("LPUSH"))
    assert not rule().touches(spec("DEL"))
    assert not rule().touches(spec("PUBLISH"))
    assert not rule().touches(STANDARD.specs[0])
    assert not SchemaTypeSettings(writes=False).bind("", NO_WORDS, Binding(STANDARD)).touches(spec("LPUSH"))
