"""What the rule does with single commands, in each of its modes, and which policies are wrong."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.compression.frames import FIELD, MAGIC, MOST_PLAIN, STRING, Codec, pack, unpack
from proxy.compression.replies import PlainReply
from proxy.hotpath.counting.counters import Counters
from proxy.hotpath.plan.plan import EDIT_REPLY, JUDGE, PASS
from proxy.policy.compile import CompiledPolicy, PolicyCompiler
from proxy.policy.decision import Decision
from proxy.rules.compress.rule import CompressSettings
from proxy.rules.compress.terms import Terms
from proxy.rules.memory import Memory
from proxy.rules.shared_state import CompressedValues
from proxy.rules.verdict import Pass, Refuse, Rewrite
from proxy.wire.request import Request
from tests.compression.histories import History, json_of
from tests.policy.given import compiled, policy, policy_files, problems
from tests.rules.given import command, context, streamed

TEXT = b"some text " * 40
RULE = "rules: {docs: {compress: {keys: ['doc:*', one], above: 64B}, mode: MODE}}"


def decided(text: str, *more: bytes, mode: str = "enforce", rule: str = RULE) -> Decision:
    return compiled(rule.replace("MODE", mode)).judge(command(text, *more), context())


def plain(argv: list[bytes]) -> list[bytes]:
    """The same with its values unpacked."""
    return [unpack(unpack(word, STRING), FIELD) for word in argv]


@pytest.mark.parametrize(
    "text",
    ["SET doc:1", "SETNX one", "GETSET doc:1", "SETEX doc:1 100", "PSETEX doc:1 100", "MSET doc:1", "HSET doc:1 f"],
)
def test_values_are_compressed(text: str) -> None:
    verdict = decided(text, TEXT).verdict
    assert isinstance(verdict, Rewrite)
    assert verdict.argv != command(text, TEXT).argv
    assert plain(verdict.argv) == command(text, TEXT).argv
    assert verdict.argv[-1][3] == (FIELD if text.startswith("H") else STRING)


@pytest.mark.parametrize("value", [b"short", b"1" * 200, b"-1" + b"0" * 99 + b".5e10", bytes(range(255, 0, -1))])
def test_values_that_do_not_pay_and_numbers_stay(value: bytes) -> None:
    assert decided("SET doc:1", value).verdict == Pass()


def test_each_value_goes_with_its_key() -> None:
    verdict = decided("MSET doc:1", TEXT, b"other", TEXT, b"one", TEXT).verdict
    assert isinstance(verdict, Rewrite)
    assert [word == TEXT for word in verdict.argv[2::2]] == [False, True, False]
    assert decided("SET other", TEXT).verdict == Pass()


def test_one_command_keeps_others_waiting_for_a_megabyte_at_most() -> None:
    large = TEXT * 1000
    several = (large, b"doc:2", large, b"doc:3", large, b"doc:4")
    verdict = decided("MSET doc:1", *several, TEXT).verdict
    assert isinstance(verdict, Rewrite)
    assert [word.startswith(MAGIC) for word in verdict.argv[2::2]] == [True, True, False, True]
    assert isinstance(decided("MSET doc:1", *several, MAGIC + TEXT).verdict, Rewrite)
    assert isinstance(decided("MSET doc:1", *several, MAGIC + large).verdict, Refuse)


def test_rules_share_the_megabyte_of_a_command() -> None:
    large = TEXT * 1000
    rule = "rules: {RULES}".replace(
        "RULES", ", ".join(f"r{n}: {{compress: {{keys: 'r{n}:*', above: 64B}}, mode: enforce}}" for n in range(5))
    )
    more = [word for n in range(1, 5) for word in (b"r%d:1" % n, large)]
    verdict = decided("MSET r0:1", large, *more, b"r4:2", TEXT, rule=rule).verdict
    assert isinstance(verdict, Rewrite)
    assert [word.startswith(MAGIC) for word in verdict.argv[2::2]] == [True, True, False, False, False, True]
    assert plain(verdict.argv) == command("MSET r0:1", large, *more, b"r4:2", TEXT).argv


def test_a_high_level_is_for_the_first_values_of_a_command() -> None:
    value = json_of(Random(1), 60_000)
    rule = "rules: {docs: {compress: {keys: 'doc:*', level: 9}, mode: enforce}}"
    verdict = decided("MSET doc:1", value, b"doc:2", value, rule=rule).verdict
    assert isinstance(verdict, Rewrite)
    assert verdict.argv[2::2] == [pack(value, STRING, Codec.ZSTD, level, 64) for level in (9, 3)]


def test_what_arrives_in_pieces_stays_and_must_not_look_compressed() -> None:
    rule = compiled(RULE.replace("MODE", "enforce"))
    decision = rule.judge(streamed([b"SET", b"doc:1", b"some text"], 2, 2 << 20), context())
    assert [hit.what for hit in decision.hits] == ["skipped"]
    assert decision.verdict == Pass()
    verdict = rule.judge(streamed([b"SET", b"doc:1", MAGIC + b"\x00\x01"], 2, 2 << 20), context()).verdict
    assert isinstance(verdict, Refuse)


@pytest.mark.parametrize("mode", ["audit", "warn"])
def test_an_audited_rule_changes_nothing_that_is_stored_and_reads_plain(mode: str) -> None:
    decision = decided("SET doc:1", TEXT, mode=mode)
    assert (decision.verdict, [hit.what for hit in decision.hits]) == (Pass(), ["rewritten"])
    for text in ("APPEND doc:1 x", "EVAL x 0", "COPY doc:1 other"):
        decision = decided(text, mode=mode)
        assert decision.verdict == Pass()
        assert [(hit.what, hit.mode) for hit in decision.hits] == [("refused", "audit")]
    stored = pack(TEXT, STRING, Codec.ZSTD, 3, 64)
    edit = decided("GET doc:1", mode=mode).edit
    assert edit is not None
    assert edit(b"$%d\r\n%b\r\n" % (len(stored), stored)) == b"$400\r\n%b\r\n" % TEXT
    assert isinstance(decided("STRLEN doc:1", mode=mode).verdict, Rewrite)


APPS = """
apps: {a: {match: {user: a}}, b: {match: {user: b}}}
rules: {docs: {compress: {keys: ['doc:*'], above: 64B}, MORE}}
"""


def test_all_clients_read_plain_and_none_damages_what_others_have_compressed() -> None:
    rules = policy(APPS.replace("MORE", "apps: [a], mode: enforce"))
    compiler = PolicyCompiler(rules, STANDARD)
    own, other = (compiler.bind(app) for app in rules.apps)
    assert isinstance(own.judge(command("SET doc:1", TEXT), context()).verdict, Rewrite)
    assert other.judge(command("SET doc:1", TEXT), context()).verdict == Pass()
    for app in (own, other, compiler.bind(None)):
        assert app.judge(command("GET doc:1"), context()).edit is not None
        assert isinstance(app.judge(command("APPEND doc:1 x"), context()).verdict, Refuse)


def test_the_kill_switch_stops_compressing_but_not_what_protects_values() -> None:
    compiler = PolicyCompiler(policy(RULE.replace("MODE", "enforce")), STANDARD)
    for paused in (True, False, True):
        rules = compiler.bind(None, paused=paused)
        assert isinstance(rules.judge(command("SET doc:1", TEXT), context()).verdict, Pass if paused else Rewrite)
        assert isinstance(rules.judge(command("APPEND doc:1 x"), context()).verdict, Refuse)
        assert rules.judge(command("GET doc:1"), context()).edit is not None


def test_a_rule_that_is_off_for_all_does_nothing() -> None:
    decision = decided("GET doc:1", mode="off")
    assert (decision.verdict, decision.edit) == (Pass(), None)


@pytest.mark.parametrize(
    "text",
    [
        "APPEND doc:1 x",
        "SETRANGE doc:1 0 x",
        "GETBIT doc:1 0",
        "BITOP AND other doc:1 a",
        "PFADD doc:1 x",
        "LCS a doc:1",
        "SET doc:1 x IFEQ y",
        "COPY doc:1 other",
        "RENAME other doc:1",
        "EVAL x 0",
        "EVAL x 1 doc:1",
        "EVAL x many doc:1",
        "FCALL f 1 doc:1",
        "SORT list BY doc:*",
        "SORT list BY doc:*->f",
        "SORT list GET do*",
        "SORT list GET doc:* STORE other",
        "NEWCOMMAND doc:1",
    ],
)
def test_what_would_damage_or_show_compressed_values_is_refused(text: str) -> None:
    verdict = decided(text).verdict
    assert isinstance(verdict, Refuse)
    assert verdict.error.startswith(b"-DENIED keyrail/docs: values of doc:*, one are stored compressed, and ")


@pytest.mark.parametrize(
    "text",
    [
        "APPEND other x",
        "INCR doc:1",
        "INCRBYFLOAT doc:1 1",
        "COPY doc:1 doc:2",
        "RENAME other another",
        "EVAL x 1 other",
        "SORT doc:list",
        "SORT doc:list BY nosort GET other:*",
        "SORT list BY doc:1",
        "DEL doc:1",
        "DUMP doc:1",
        "LPUSH doc:1 x",
        "APPEND doc:1",
        "GETRANGE doc:1 a b",
        "HRANDFIELD doc:1 3",
        "NEWCOMMAND other",
        "OBJECT NEW doc:1",
    ],
)
def test_what_touches_no_compressed_value_passes(text: str) -> None:
    decision = decided(text)
    assert (decision.verdict, decision.edit, decision.hits) == (Pass(), None, ())


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        ("HSCAN doc:1 0", True),
        ("HSCAN doc:1 0 MATCH novalues COUNT 10", True),
        ("HSCAN doc:1 0 MATCH match novalues", False),
        ("HRANDFIELD doc:1 3 withvalues", True),
        ("SET doc:1 x get", True),
        ("SET doc:1 get", False),
    ],
)
def test_options_say_whether_a_reply_has_values(text: str, edited: bool) -> None:
    assert (decided(text).edit is not None) is edited


def test_trusted_scripts_pass() -> None:
    rule = "rules: {docs: {compress: {keys: 'doc:*', scripts: trusted}, mode: enforce}}"
    assert decided("EVAL x 1 doc:1", rule=rule).verdict == Pass()


def test_a_command_is_answered_from_the_plain_value_if_its_user_may_read_it() -> None:
    verdict = decided("GETRANGE doc:1 0 3").verdict
    assert isinstance(verdict, Rewrite)
    assert verdict.argv == [b"GET", b"doc:1"]
    verdict = decided("HSTRLEN doc:1 f").verdict
    assert isinstance(verdict, Rewrite)
    assert verdict.argv == [b"HGET", b"doc:1", b"f"]
    rules = compiled(RULE.replace("MODE", "enforce"), available=frozenset())
    assert isinstance(rules.judge(command("STRLEN doc:1"), context()).verdict, Refuse)


def test_as_policies_say_it() -> None:
    text = "rules: {docs: {compress: {keys: ['doc:*'], above: 10KB, codec: lz4, level: 4, scripts: trusted}}}"
    assert policy(text).rules[0].settings == CompressSettings(Terms(("doc:*",), 10240, Codec.LZ4, 4, True))
    text = "rules: {docs: {compress: {keys: 'doc:*', codec: lz4}}}"
    assert policy(text).rules[0].settings == CompressSettings(Terms(("doc:*",), 4096, Codec.LZ4, 0))


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("{}", "keys"),
        ("{keys: []}", "keys"),
        ("{keys: ['a?']}", "keys"),
        ("{keys: [a], above: 63B}", "above"),
        ("{keys: [a], above: 1GB}", "above"),
        ("{keys: [a], codec: gzip}", "codec"),
        ("{keys: [a], level: 0}", "level"),
        ("{keys: [a], level: 22}", "level"),
        ("{keys: [a], scripts: allow}", "scripts"),
        ("{keys: [a], dictionary: train}", "dictionary"),
        ("{keys: [a], dictionary: [x]}", "dictionary"),
        ("{keys: [a], dictionary: ../x}", "dictionary"),
        ("{keys: [a], also_read: x.zdict}", "also_read"),
        ("{keys: [a], also_read: []}", "also_read"),
        ("{keys: [a], dictionary: x}", "dictionary"),
    ],
)
def test_what_cannot_be_meant_is_an_error(text: str, wrong: str) -> None:
    found = problems(f"rules: {{docs: {{compress: {text}}}}}")
    assert any(f"rules.docs.compress.{wrong}" in problem for problem in found), found


def test_two_rules_for_the_same_key_contradict_each_other() -> None:
    text = "rules: {a: {compress: {keys: 'doc:*'}}, b: {compress: {keys: ['x:*', 'doc:a*'], codec: lz4}MORE}}"
    (found,) = problems(text.replace("MORE", ""))
    assert "rules.b.compress.keys: found 'doc:a*', expected patterns that do not overlap with 'doc:*' of a (" in found
    assert not problems(text.replace("MORE", ", mode: off"))


def test_without_the_codecs_a_policy_with_the_rule_does_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.rules.compress.yaml.missing", lambda: "lz4")
    (found,) = problems("rules: {docs: {compress: {keys: 'doc:*'}}}")
    assert (
        "without the package lz4, expected keyrail[compress] to be installed: pip install 'keyrail[compress]'" in found
    )


@pytest.mark.parametrize("mode", ["audit", "enforce"])
def test_what_is_saved_is_counted(mode: str) -> None:
    memory, seconds = Memory(), count()
    memory.shared(CompressedValues).run_by(lambda: float(next(seconds)))
    rules = PolicyCompiler(policy(RULE.replace("MODE", mode)), STANDARD, memory=memory).bind(None)
    for value in (TEXT, TEXT, bytes(range(255, 0, -1)), b"short"):
        rules.judge(command("SET doc:1", value), context())
    stored = len(pack(TEXT, STRING, Codec.ZSTD, 3, 64))
    reading = rules.judge(command("GET doc:1"), context()).edit
    assert reading is not None
    reply = b"$%d\r\n%b\r\n" % (stored, pack(TEXT, STRING, Codec.ZSTD, 3, 64))
    assert reading(reply) == b"$%d\r\n%b\r\n" % (len(TEXT), TEXT)
    one_way = {"values": 2, "plain_bytes": 2 * len(TEXT), "stored_bytes": 2 * stored, "seconds": 3, "as_they_are": 1}
    back = {"values": 1, "plain_bytes": len(TEXT), "stored_bytes": stored, "seconds": 1}
    figures = memory.shared(CompressedValues).figures()
    assert figures == {"docs": one_way | {f"decompressed_{name}": figure for name, figure in back.items()}}


def test_replicas_may_answer_reads_of_these_keys_and_their_replies_are_edited() -> None:
    rule = "rules: {r: {replica_reads: {keys: ['*']}}, docs: {compress: {keys: 'doc:*'}}}\ndefaults: {mode: enforce}"
    rules = compiled(rule)
    for text, edited in (("GET other", False), ("GET doc:1", True)):
        decision = rules.judge(command(text), context())
        assert decision.replica is not None
        assert (decision.edit is not None) == edited


ROLLOUT = """
apps: {a: {match: {user: a}}, b: {match: {user: b}}}
rules: {docs: {compress: {keys: 'doc:*', above: 64B}}}
rollout: {docs: {default: audit, a: enforce 50%}}
exceptions: [{rule: docs, keys: 'doc:x*', because: it is hot, until: 2999-01-01}]
"""


def test_rollout_and_exceptions_say_whose_values_are_compressed_and_nothing_else() -> None:
    rules = policy(ROLLOUT)
    compiler = PolicyCompiler(rules, STANDARD)
    a, b = (compiler.bind(app) for app in rules.apps)
    verdicts = [a.judge(command(f"SET doc:{n}", TEXT), context()).verdict for n in range(100)]
    assert 20 < sum(isinstance(verdict, Rewrite) for verdict in verdicts) < 80
    assert a.judge(command("SET doc:x1", TEXT), context()) == Decision(Pass())
    assert isinstance(b.judge(command("SET doc:1", TEXT), context()).verdict, Pass)
    for app in (a, b, compiler.bind(None)):
        for key in ("doc:1", "doc:x1"):
            assert app.judge(command(f"GET {key}"), context()).edit is not None
            assert isinstance(app.judge(command(f"APPEND {key} x"), context()).verdict, Refuse)


def test_the_rule_of_one_team_holds_for_all() -> None:
    files = {
        "first.yaml": "keyrail: 1\ninclude: [shop.yaml]\napps: {shop: {match: {user: shop}}}\nrules: {}\n",
        "shop.yaml": "app: shop\nrules: {docs: {compress: {keys: 'doc:*', above: 64B}, mode: enforce}}\n",
    }
    with TemporaryDirectory() as folder:
        rules = policy_files(Path(folder), files)
    compiler = PolicyCompiler(rules, STANDARD)
    shop, nobody = compiler.bind(rules.apps[0]), compiler.bind(None)
    assert isinstance(shop.judge(command("SET doc:1", TEXT), context()).verdict, Rewrite)
    assert nobody.judge(command("SET doc:1", TEXT), context()) == Decision(Pass())
    assert nobody.judge(command("GET doc:1"), context()).edit is not None
    assert isinstance(nobody.judge(command("APPEND doc:1 x"), context()).verdict, Refuse)


def outcome(text: str, *more: bytes, mode: str = "enforce") -> int:
    """What the plan decides."""
    return planned(compiled(RULE.replace("MODE", mode)), command(text, *more).argv)


def planned(bound: CompiledPolicy, argv: list[bytes]) -> int:
    request = Request.from_argv(argv)
    found = bound.table.lookup.find(request)
    return bound.plan.decide(found, request, bytes(request.data), bound.table.keys, Counters(1))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SET doc:1 x", PASS),
        ("SET doc:1 x NX EX 10", PASS),
        ("SET doc:1 x get", JUDGE),
        ("SET doc:1 x EX 10 GET", JUDGE),
        ("SET doc:1 x ifeq y", JUDGE),
        ("SETEX doc:1 10 x", PASS),
        ("SETEX doc:1 10 \0\1\2", JUDGE),
        ("MSET other x doc:1 x", PASS),
        ("MSET other \0\1\2 doc:1 x", JUDGE),
        ("HSET doc:1 f x g \0\1\2", JUDGE),
        ("GET doc:1", EDIT_REPLY),
        ("GET one", EDIT_REPLY),
        ("GET other", PASS),
        ("GETDEL doc:1", EDIT_REPLY),
        ("GETSET doc:1 x", EDIT_REPLY),
        ("GETSET doc:1 \0\1\2", JUDGE),
        ("HGETALL doc:1", EDIT_REPLY),
        ("HMGET doc:1 f g", EDIT_REPLY),
        ("HSCAN doc:1 0", JUDGE),
        ("MGET doc:1", JUDGE),
        ("MGET other", PASS),
        ("STRLEN doc:1", JUDGE),
        ("APPEND doc:1 x", JUDGE),
        ("DEL doc:1", PASS),
    ],
)
def test_what_the_plan_decides_by_itself(text: str, expected: int) -> None:
    for mode in ("enforce", "audit"):
        assert outcome(text, mode=mode) == expected
    assert outcome(text + " " + "x" * 70) in (JUDGE, outcome(text))


def replies(version: int) -> list[bytes]:
    """Some, with compressed values and with one that is too large."""
    one, large = (pack(value, version, Codec.ZSTD, 3, 64) for value in (TEXT, bytes(MOST_PLAIN + 1)))
    bulks = [b"$%d\r\n%b\r\n" % (len(value), value) for value in (one, large)]
    return [*bulks, *(b"*4\r\n" + each * 4 for each in bulks), b"%2\r\n" + bulks[0] * 4, b"$-1\r\n"]


def test_large_values_are_judged() -> None:
    assert outcome("SET doc:1", TEXT) == outcome("HSET doc:1 f", TEXT) == outcome("MSET a x doc:1", TEXT) == JUDGE
    assert outcome("SET other", TEXT) == PASS


@pytest.mark.parametrize("beside", ["", ", ttl: {lifetime: {default: 1h}}", ", small: {sizes: {value: 500B}}"])
@pytest.mark.parametrize("mode", ["enforce", "audit"])
def test_the_plan_never_decides_otherwise_than_the_rule(beside: str, mode: str) -> None:
    text = RULE.replace("MODE", mode)
    bound = compiled(text[:-1] + beside + "}")
    outcomes: set[int] = set()
    compared: set[bytes] = set()
    for seed in range(3):
        for argv in History(seed).commands(400):
            told = planned(bound, argv)
            outcomes.add(told)
            decision = bound.judge(Command(bound.table, argv), context())
            if told == PASS:
                assert (decision.verdict, decision.edit, decision.hits) == (Pass(), None, ()), argv
            elif told == EDIT_REPLY:
                assert (decision.verdict, decision.hits) == (Pass(), ()), argv
                edit = bound.plan.reply_edit
                assert isinstance(edit, PlainReply)
                assert decision.edit is not None
                for reply in () if argv[0] in compared else (*replies(STRING), *replies(FIELD)):
                    assert edit(reply) == decision.edit(reply), argv
                compared.add(argv[0])
    assert {PASS, JUDGE} < outcomes


def test_an_edited_reply_of_a_changed_command_is_judged() -> None:
    bound = compiled(RULE.replace("MODE", "enforce")[:-1] + ", sliding: {lifetime: {default: 1h, sliding: true}}}")
    assert planned(bound, [b"GET", b"other"]) != EDIT_REPLY
    assert planned(bound, [b"GET", b"doc:1"]) in (JUDGE, EDIT_REPLY)
