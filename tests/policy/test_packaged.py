"""The packaged policies load, and do what their first lines say."""

import pickle
import time
from collections import Counter
from pathlib import Path

import pytest

from proxy.commands.table import STANDARD
from proxy.hotpath.counting.counters import Counters
from proxy.hotpath.plan.plan import JUDGE, PASS
from proxy.net.policy.cache_scope import cache_rules
from proxy.policy.expectations import run_tests
from proxy.policy.load import load_policy
from proxy.policy.model import TRANSPARENT, Mode
from proxy.policy_yaml.shipped import packaged
from proxy.rules.breaker.rule import BreakerSettings
from proxy.rules.compress.plain_values import PlainValuesSettings
from proxy.rules.compress.rule import CompressSettings
from proxy.rules.lifetime.settings import SchemaTtlSettings
from proxy.rules.limits.rule import LimitsSettings
from proxy.rules.order import ORDER, parts_of
from proxy.rules.refuse.rule import RefuseSettings
from proxy.rules.schema.size import SchemaSizeSettings
from proxy.rules.schema.type import SchemaTypeSettings
from proxy.rules.scripts.rule import ScriptsSettings
from proxy.rules.verdict import Pass, Refuse, Rewrite
from proxy.wire.request import Request
from tests.policy.given import compile_policy
from tests.rules.given import command, context


@pytest.mark.parametrize("name", ["default", "strict", "agents", "bench", "default.yaml"])
def test_a_packaged_policy_loads_and_enforces(name: str) -> None:
    loaded = load_policy(packaged(name))
    assert loaded.default.mode is Mode.ENFORCE
    assert {rule.mode for rule in loaded.rules} == {None}
    assert loaded.count_keys


@pytest.mark.parametrize("path", sorted(packaged("default").parent.glob("*.yaml")), ids=lambda path: path.stem)
def test_workers_are_handed_a_whole_policy(path: Path) -> None:
    """By pickle, in either form of this program."""
    loaded = load_policy(path)
    assert pickle.loads(pickle.dumps(loaded)) == loaded


@pytest.mark.parametrize("path", sorted(packaged("default").parent.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_policy_that_is_read_again_is_the_same(path: Path) -> None:
    """A reload that changes nothing is no reload, and has no generation of its own."""
    assert load_policy(path) == load_policy(path)


@pytest.mark.parametrize("path", sorted(packaged("default").parent.glob("*.yaml")), ids=lambda path: path.stem)
def test_only_the_tour_answers_from_memory(path: Path) -> None:
    assert bool(cache_rules(load_policy(path))) == (path.stem == "tour")


def test_there_is_no_other() -> None:
    with pytest.raises(FileNotFoundError, match="no packaged policy nosuch"):
        packaged("nosuch")


def test_the_default_only_refuses() -> None:
    assert {type(rule.settings) for rule in load_policy(packaged("default")).rules} == {RefuseSettings, ScriptsSettings}


def test_observing_tells_of_all_that_strict_enforces() -> None:
    """But for what needs a schema, and for limits, which only those who run a Redis can name."""
    strict, observe = (load_policy(packaged(name)) for name in ("strict", "observe"))
    assert observe.default.mode is Mode.AUDIT
    assert {rule.mode for rule in observe.rules} == {None}
    left_out = {type(rule.settings) for rule in strict.rules} - {type(rule.settings) for rule in observe.rules}
    needing = {SchemaTypeSettings, SchemaSizeSettings, SchemaTtlSettings}
    assert left_out == needing | {LimitsSettings, BreakerSettings}


def test_the_tour_has_every_guardrail() -> None:
    """But for what a plain installation cannot load."""
    rules = load_policy(packaged("tour")).rules
    codecs = {CompressSettings, PlainValuesSettings}
    assert {type(part) for rule in rules for part in parts_of(rule.settings)} == set(ORDER) - codecs


@pytest.mark.parametrize(
    "text", ["GET a", "SET a b", "DEL a", "EVAL return 0", "CONFIG GET x", "INFO", "SCAN 0", "CLIENT ID", "FCALL f 0"]
)
def test_the_default_leaves_applications_alone(text: str) -> None:
    judge = compile_policy(load_policy(packaged("default")), STANDARD).judge
    assert isinstance(judge(command(text), context()).verdict, Pass)


@pytest.mark.parametrize("text", ["FLUSHALL", "flushdb async", "KEYS *", "CONFIG SET a b", "SHUTDOWN", "DEBUG SLEEP 1"])
def test_the_default_refuses_what_is_plainly_dangerous(text: str) -> None:
    judge = compile_policy(load_policy(packaged("default")), STANDARD).judge
    assert isinstance(judge(command(text), context()).verdict, Refuse)


READ_ONLY = """
    ACL DRYRUN, ACL GETUSER, ACL LIST, ACL LOG, ACL USERS, BACKUP HELP, BACKUP LIST, BACKUP STATUS, CLIENT LIST,
    CLUSTER COUNT-FAILURE-REPORTS, CLUSTER GETSLOTMIGRATIONS, CLUSTER REPLICAS, CLUSTER SLAVES, COMMANDLOG GET,
    COMMANDLOG LEN, CONFIG GET, FT.CONFIG, HOTKEYS GET, HOTKEYS HELP, INFO, LASTSAVE, LATENCY DOCTOR, LATENCY GRAPH,
    LATENCY HISTOGRAM, LATENCY HISTORY, LATENCY LATEST, ROLE, SLOWLOG GET, SLOWLOG LEN, SORT, SORT_RO
"""
"""What the engines call dangerous or for administrators, and agents may run: it changes nothing for anybody else."""


def test_agents_may_run_nothing_dangerous_but_what_reads() -> None:
    bound = compile_policy(load_policy(packaged("agents")), STANDARD)
    dangerous = [
        spec for spec in STANDARD.specs if spec.id and ("admin" in spec.flags or "dangerous" in spec.categories)
    ]
    assert len(dangerous) > 80
    passing = {
        spec.display
        for spec in dangerous
        if isinstance(bound.judge(command(spec.display, *[b"x"] * 3), context()).verdict, Pass)
    }
    assert passing == {" ".join(each.split()) for each in READ_ONLY.split(",")}
    by_name = {rule.name: rule.wording for rule in load_policy(packaged("agents")).rules}
    assert [name for name, wording in by_name.items() if not (wording.because and wording.instead)] == []


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("SET user:1:name ada", "SET user:1:name ada EX 300"),
        ("DEL user:1:cart", "UNLINK user:1:cart"),
        ("SET john_email x", "-DENIED keyrail/key-names: "),
        ("KEYS *", "-DENIED keyrail/no-keyspace-walks: "),
    ],
)
def test_the_tour_shows_what_it_promises(text: str, becomes: str) -> None:
    verdict = compile_policy(load_policy(packaged("tour")), STANDARD).judge(command(text), context()).verdict
    if isinstance(verdict, Rewrite):
        assert b" ".join(verdict.argv).decode() == becomes
    else:
        assert isinstance(verdict, Refuse)
        assert verdict.error.decode().startswith(becomes)


@pytest.mark.parametrize("path", sorted(packaged("default").parent.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_policys_own_tests_pass_and_reach_every_rule(path: Path) -> None:
    loaded = load_policy(path)
    report = run_tests(loaded, time.time())
    assert [str(outcome) for outcome in report.outcomes if not outcome.passed] == []
    assert report.unreached == ()
    assert loaded.warnings == ()


@pytest.mark.parametrize(
    ("text", "judged"),
    [
        ("SET user:{}:name name-{} EX 300", 0),
        ("SETEX user:{}:name 300 {}", 0),
        ("LSET user:{}:jobs 0 {}", 0),
        ("SET user:{}:name a:{}:{{}} EX 300", 1000),
        ("SET user:{}:name {}", 1000),  # a TTL would be added, which is counted
    ],
)
def test_observing_judges_few_writes_of_texts(text: str, judged: int) -> None:
    bound = compile_policy(load_policy(packaged("observe")), STANDARD)
    outcomes = []
    for i in range(1000):
        request = Request.from_argv(text.format(i, i).encode().split())
        found = STANDARD.lookup.find(request)
        outcomes.append(bound.plan.decide(found, request, bytes(request.data), STANDARD.keys, Counters(1)))
    assert Counter(outcomes) == Counter({PASS: 1000 - judged, JUDGE: judged})


def test_transparent_is_no_rule_and_no_count() -> None:
    bound = compile_policy(TRANSPARENT, STANDARD)
    assert not any(bound.plan.operations)
    assert isinstance(bound.judge(command("FLUSHALL"), context()).verdict, Pass)
