"""What a rule declares about its verdicts (``JudgedBy``) holds: of commands of one form, a rule that judges by the form
says the same of all; and where an exemplar has all that a rule judges by, it is judged as the command was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pytest

from proxy.commands.buckets import bucket, ends_bucket
from proxy.commands.command import Command, KeysUnknownError
from proxy.commands.table import STANDARD
from proxy.commands.values import whole_number
from proxy.rules.allow_only.rule import AllowOnlySettings
from proxy.rules.breaker.rule import BreakerSettings
from proxy.rules.collections.rule import CollectionsSettings
from proxy.rules.compress.rule import CompressSettings
from proxy.rules.compress.terms import Terms
from proxy.rules.databases.rule import DatabasesSettings
from proxy.rules.fan_out.rule import FanOutSettings
from proxy.rules.guardrails import GUARDRAILS
from proxy.rules.judged_by import JudgedBy
from proxy.rules.keys_by_scan.rule import KeysByScanSettings
from proxy.rules.lifetime.settings import LifetimeSettings, SchemaTtlSettings
from proxy.rules.lifetime.ttl_options import TtlOptions
from proxy.rules.limits.rule import LimitsSettings
from proxy.rules.local_cache.rule import LocalCacheSettings
from proxy.rules.memory import Memory
from proxy.rules.names.rule import CHARACTERS, NamesSettings
from proxy.rules.one_slot.rule import OneSlotSettings
from proxy.rules.order import ORDER, parts_of
from proxy.rules.quota.rule import Per, QuotaSettings
from proxy.rules.ranges.rule import RangesSettings
from proxy.rules.rates import Rate
from proxy.rules.read_only.rule import ReadOnlySettings
from proxy.rules.refuse.rule import RefuseSettings
from proxy.rules.replace.rule import ReplaceSettings
from proxy.rules.replica_reads.rule import ReplicaReadsSettings
from proxy.rules.replies.rule import RepliesSettings
from proxy.rules.rule import Rule, RuleSettings
from proxy.rules.scan_counts.rule import ScanCountsSettings
from proxy.rules.schema.fields import SchemaFieldsSettings
from proxy.rules.schema.members import SchemaMembersSettings
from proxy.rules.schema.size import SchemaSizeSettings
from proxy.rules.schema.type import SchemaTypeSettings
from proxy.rules.scripts.rule import ScriptsSettings
from proxy.rules.sizes.rule import SizesSettings
from proxy.rules.transactions.rule import TransactionsSettings
from proxy.rules.unknown_commands.rule import UnknownCommandsSettings
from proxy.rules.values.rule import ValuesSettings
from proxy.rules.verdict import Pass
from proxy.rules.whole_collections.rule import WholeCollectionsSettings
from proxy.schema.bounds import Bounds
from proxy.schema.entries import NO_SCHEMA, KeyEntry, KeySize, Schema
from proxy.schema.hash_fields import FieldType, HashFields
from proxy.schema.patterns import parse_pattern
from proxy.server.evidence.judging import told_by
from proxy.traffic.command_form import exemplar, form_of
from proxy.traffic.exemplars import remade
from proxy.traffic.redaction import Redact, Redaction
from proxy.traffic.shapes import shape
from tests.conftest import seeds
from tests.rules.given import BINDING, NO_WORDS, context

FIELDS = HashFields((("a", FieldType.INT), ("x*", FieldType.STRING)))
SCHEMA = Schema(
    (
        KeyEntry("a", parse_pattern("a:{x}"), "string", Bounds(default=500, least=100, most=900), KeySize(9, 3, 2)),
        KeyEntry(
            "b", parse_pattern("b:{x}"), "hash", Bounds(required=True), KeySize(members_per_write=2), fields=FIELDS
        ),
    )
)
KEYS = (b"a:1", b"a:2:3", b"b:1", b"c", b"{a}:1", b"{a}:2", b"a b", b"other:longer:name")
DATA = (
    b"",
    b"a",
    b"x",
    b"yy",
    b"zzz",
    b"hello world",
    b"NX",
    b"nx",
    b"EX",
    b"1-1",
    b"*",
    b"u:*",
    b"\x00\xff",
    b"\x80\x04K.",
    b"y" * 60,
)
WORDS = (
    *(b"EX", b"px", b"KEEPTTL", b"NX", b"GET", b"ASYNC", b"COUNT", b"LIMIT", b"STORE", b"BY", b"MATCH", b"REV", b"DB"),
    *(b"PERSIST", b"FIELDS", b"STREAMS", b"BYSCORE", b"MAXLEN", b"~", b"WITHSCORES", b"EXAT", b"IFEQ", b"FULL"),
)
SETTINGS_TRIED, COMMANDS_MADE, COMMANDS_TRIED = 6, 400, 40
TEMPLATES = (
    *("GET K", "SET K V", "SET K V EX N", "SET K V W", "DEL K*", "MGET K*", "MSET P*", "SETEX K N V", "GETEX K EX N"),
    *("EXPIRE K N", "PERSIST K", "HSET K P*", "HGETALL K", "LPUSH K V*", "LRANGE K N N", "LRANGE K 0 -1", "SADD K V*"),
    *(
        "ZADD K NX N V N V",
        "ZRANGE K N N",
        "ZRANGEBYSCORE K V V LIMIT N N",
        "XADD K MAXLEN ~ N * P*",
        "XRANGE K - + COUNT N",
    ),
    *(
        "XREAD COUNT N STREAMS K V",
        "SCAN N COUNT N",
        "SCAN N MATCH V COUNT N",
        "HSCAN K N COUNT N",
        "KEYS V",
        "SORT K BY V",
    ),
    *(
        "SORT K LIMIT N N",
        "SORT_RO K GET V",
        "COPY K K DB N",
        "SETRANGE K N V",
        "GETRANGE K N N",
        "BITFIELD K SET u8 N N",
    ),
    *(
        "RESTORE K N V",
        "EVAL V 1 K V",
        "FLUSHALL",
        "FLUSHALL W",
        "CONFIG SET V V",
        "SELECT N",
        "SWAPDB N N",
        "MSETNX P*",
    ),
    *(
        "SUNIONSTORE K K*",
        "SMEMBERS K",
        "WATCH K",
        "MULTI",
        "HSETEX K EX N FIELDS 1 V V",
        "GEOADD K NX N N V",
        "SPOP K N",
    ),
    *("LMPOP 1 K LEFT COUNT N", "MSETEX 1 K V EX N", "SETNX K V", "NOSUCH V", "CONFIG V", "CLIENT V V", "GETSET K V"),
    *(
        "MIGRATE V N K N N",
        "MOVE K N",
        "APPEND K V",
        "INCR K",
        "PFADD K V*",
        "RENAME K K",
        "EXISTS K*",
        "ZUNIONSTORE K 2 K K",
    ),
)
LIMITS = (1, 2, 3, 7, 9, 20, 33, 70, 100, 300, 900, 1000, 1500)


def limit_of(random: Random, most: int) -> int:
    return random.choice([limit for limit in LIMITS if limit <= most])


def some(random: Random, limit: int) -> int | None:
    return random.choice([None, limit_of(random, limit)])


def bounds(random: Random) -> Bounds:
    return Bounds(
        random.choice([None, 300]),
        random.choice([None, 60]),
        random.choice([None, 900]),
        required=random.random() < 0.3,
    )


def listed(random: Random) -> tuple[str, ...]:
    every = (
        "KEYS",
        "CONFIG SET",
        "FLUSHALL",
        "FLUSHALL ASYNC",
        "CONFIG",
        "GET",
        "SORT",
        "KEYS A",
        "NOSUCH",
        "SET NX",
        "CONFIG SET A",
    )
    return tuple(random.sample(every, 3))


SETTINGS: dict[str, Callable[[Random], RuleSettings]] = {
    "refuse": lambda r: RefuseSettings(listed(r), listed(r)[:1]),
    "allow_only": lambda r: AllowOnlySettings(listed(r), ("read",)),
    "unknown_commands": lambda _: UnknownCommandsSettings(),
    "read_only": lambda _: ReadOnlySettings(),
    "databases": lambda r: DatabasesSettings((r.randint(0, 3),)),
    "values": lambda _: ValuesSettings(("pickle", "java", "php")),
    "transactions": lambda _: TransactionsSettings(),
    "one_slot": lambda r: OneSlotSettings(r.random() < 0.8),
    "scripts": lambda _: ScriptsSettings(),
    "limits": lambda r: LimitsSettings(rate=Rate(r.randint(1, 9), 1, 1)),
    "breaker": lambda _: BreakerSettings(),
    "quota": lambda r: QuotaSettings(keys=some(r, 9), bytes=100, per=r.choice(list(Per))),
    "replace": lambda _: ReplaceSettings((("DEL", "UNLINK"), ("FLUSHALL", "FLUSHALL ASYNC"))),
    "names": lambda r: NamesSettings(
        r.choice(sorted(CHARACTERS)), max_length=r.randint(2, 9), in_schema=r.random() < 0.2
    ),
    "sizes": lambda r: SizesSettings(some(r, 70), some(r, 9), r.choice([None, None, None, 33])),
    "fan_out": lambda r: FanOutSettings(limit_of(r, 100)),
    "ranges": lambda r: RangesSettings(limit_of(r, 2000), some(r, 500), r.random() < 0.5),
    "scan_counts": lambda r: ScanCountsSettings(limit_of(r, 2000), r.random() < 0.5),
    "collections": lambda r: CollectionsSettings(limit_of(r, 9), limit_of(r, 9)),
    "whole_collections": lambda r: WholeCollectionsSettings(max=some(r, 100)),
    "keys_by_scan": lambda _: KeysByScanSettings(),
    "replies": lambda _: RepliesSettings(9, 9),
    "schema": lambda r: r.choice(
        [
            SchemaTypeSettings(True),
            SchemaSizeSettings(SchemaMembersSettings()),
            SchemaTtlSettings(TtlOptions()),
            SchemaFieldsSettings(),
        ]
    ),
    "lifetime": lambda r: LifetimeSettings(bounds(r), TtlOptions(), r.choice([(), ("a*",)])),
    "local_cache": lambda _: LocalCacheSettings(("a*",)),
    "compress": lambda _: CompressSettings(Terms(("a*",), above=64)),
    "replica_reads": lambda r: ReplicaReadsSettings(r.choice([("*",), ("a*",)])),
}


def number(random: Random) -> bytes:
    near = random.choice(LIMITS) + random.randint(-1, 1)
    return b"%d" % random.choice([-1, 0, 1, 2, 3, near, near, near, random.randint(20, 3000), 10**12])


def filled(random: Random, part: str) -> list[bytes]:
    """One part of a template: a key, a value, a number, a word or a pair, or with a star several."""
    if part.endswith("*") and len(part) > 1:
        count = random.choice([1, 2, 3, 4, 5, random.choice(LIMITS[:9]) + random.randint(0, 1)])
        return [word for _ in range(count) for word in filled(random, part[0])]
    made: dict[str, Callable[[], list[bytes]]] = {
        "K": lambda: [random.choice(KEYS)],
        "V": lambda: [random.choice(DATA)],
        "N": lambda: [number(random)],
        "W": lambda: [random.choice(WORDS)],
        "P": lambda: [random.choice(KEYS), random.choice(DATA)],
    }
    return made[part]() if part in made else [random.choice([part, part.lower()]).encode()]


def generated(random: Random) -> list[bytes]:
    """A command that rules are about, or any command with anything behind it."""
    if random.random() < 0.8:
        return [word for part in random.choice(TEMPLATES).split() for word in filled(random, part)]
    names = [word.encode() for word in random.choice(STANDARD.specs[1:]).name.split("|")]
    return [*names, *(word for _ in range(random.randint(0, 7)) for word in filled(random, random.choice("KVNW")))]


def varied(random: Random, command: Command) -> Command:
    """A command like this one, with other keys, bytes and numbers, and perhaps with more of the last arguments."""
    keys = {key.index for key in command.known_keys}
    argv = list(command.argv)
    for index in range(1, len(argv)):
        found = whole_number(argv[index])
        if index in keys:
            argv[index] = random.choice(KEYS)
        elif found is not None and found > 2:
            argv[index] = b"%d" % random.choice(
                [found - 2, found - 1, found, found + 1, found + 2, random.randint(3, 2 * found)]
            )
        elif argv[index] in DATA and random.random() < 0.5:
            size = max(0, len(argv[index]) + random.choice([0, 0, 0, -1, 1]))
            argv[index] = bytes(random.choices(b"abcxyz", k=size))
    period = random.choice([0, 0, 1, 2])
    return Command(STANDARD, [*argv, *(argv[-period:] * random.randint(1, 3) if period < len(argv) and period else ())])


def kind(rule: Rule, command: Command) -> str:
    try:
        verdict = rule.judge(Command(STANDARD, command.argv), context())
    except KeysUnknownError:
        return "Refuse"
    return "skipped" if isinstance(verdict, Pass) and verdict.skipped else type(verdict).__name__


def bound(settings: RuleSettings, schema: Schema = SCHEMA) -> Sequence[Rule]:
    binding = replace(BINDING, schema=schema, memory=Memory(rehearsal=True))
    return [part.bind("r", NO_WORDS, binding) for part in parts_of(settings)]


def shape_of(command: Command) -> str:
    return shape(command.known_keys[0].name) if command.known_keys else ""


def test_every_guardrail_is_tried() -> None:
    assert SETTINGS.keys() == GUARDRAILS.keys()
    made = {type(part) for make in SETTINGS.values() for seed in range(20) for part in parts_of(make(Random(seed)))}
    assert set(ORDER) <= made


@pytest.mark.parametrize("guardrail", SETTINGS)
def test_what_depends_on_earlier_commands_is_not_judged(guardrail: str) -> None:
    for seed in range(20):
        for rule in bound(SETTINGS[guardrail](Random(seed))):
            if rule.needs.history or rule.needs.facts:
                assert {rule.judged_by(spec) for spec in STANDARD.specs if rule.touches(spec)} <= {JudgedBy.STATE}


@pytest.mark.parametrize("seed", seeds(3, 40))
@pytest.mark.parametrize("guardrail", SETTINGS)
def test_what_a_rule_judges_by_is_what_it_says(guardrail: str, seed: int) -> None:
    random = Random(f"{guardrail} {seed}")
    for _ in range(SETTINGS_TRIED):
        rules = bound(SETTINGS[guardrail](random), random.choice([SCHEMA, NO_SCHEMA]))
        shown = Redaction(random.choice([Redact.NONE, Redact.NONE, Redact.HASH, Redact.SHAPE]))
        told = 0
        for _ in range(COMMANDS_MADE):
            command = Command(STANDARD, generated(random))
            levels = [(rule, rule.judged_by(command.spec)) for rule in rules if rule.touches(command.spec)]
            if any(level is not JudgedBy.STATE for _, level in levels) and told < COMMANDS_TRIED:
                told += 1
                assert_holds(levels, command, shown, random)


def assert_holds(levels: Sequence[tuple[Rule, JudgedBy]], command: Command, shown: Redaction, random: Random) -> None:
    form = form_of(command)
    alike = [each for each in (varied(random, command) for _ in range(8)) if form_of(each) == form]
    made = remade(exemplar(command, shown, 0.0).words, command.name, shape_of(command), form, STANDARD)
    for rule, level in levels:
        said = kind(rule, command)
        if level is JudgedBy.FORM:
            for other in alike:
                assert kind(rule, other) == said, (command.argv, other.argv, form)
        if made is not None and level <= told_by(made):
            assert kind(rule, made.command) == said, (command.argv, made.command.argv, form)


@pytest.mark.parametrize(("limit", "ends"), [(100, True), (10 << 10, True), (99, False), (3, False), (None, True)])
def test_ends_of_buckets(limit: int | None, ends: bool) -> None:
    assert ends_bucket(limit) is ends


def test_a_bucket_never_crosses_a_number_at_its_end() -> None:
    last = 0
    for value in (*range(3000), 10**6, 10**17, 1 << 62, 1 << 63):
        assert last <= bucket(value)
        assert bucket(value) >= value or value > 1 << 62
        assert bucket(-value) == -bucket(value)
        last = bucket(value)
