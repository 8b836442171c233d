"""The packaged policies load, keep the promises that their first lines make, and README's examples are the language
that is really read."""

import pickle
import re
import time
from pathlib import Path

import pytest

from proxy.commands.table import STANDARD
from proxy.policy.compile import compile_policy
from proxy.policy.expectations import run_tests
from proxy.policy.load import load_policy
from proxy.policy.model import TRANSPARENT, Mode
from proxy.policy_yaml.shipped import packaged
from proxy.rules.breaker.rule import BreakerSettings
from proxy.rules.guardrails import GUARDRAILS
from proxy.rules.lifetime.settings import SchemaTtlSettings
from proxy.rules.limits.rule import LimitsSettings
from proxy.rules.order import ORDER
from proxy.rules.refuse.rule import RefuseSettings
from proxy.rules.schema.size import SchemaSizeSettings
from proxy.rules.schema.type import SchemaTypeSettings
from proxy.rules.scripts.rule import ScriptsSettings
from proxy.rules.verdict import Pass, Refuse, Rewrite
from tests.policy.given import policy, policy_files
from tests.rules.given import command, context


@pytest.mark.parametrize("name", ["default", "strict", "bench", "default.yaml"])
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
    assert {type(rule.settings) for rule in load_policy(packaged("tour")).rules} == set(ORDER)


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


def test_the_readmes_policy_for_many_teams_passes_its_tests(tmp_path: Path) -> None:
    text = (Path(__file__).resolve().parents[2] / "policies" / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml policy\n(.*?)```", text, re.DOTALL)
    report = run_tests(policy_files(tmp_path, {"redis.yaml": example, "apps/checkout.yaml": "app: checkout"}), 0.0)
    assert [str(outcome) for outcome in report.outcomes if not outcome.passed] == []
    assert report.unreached == ()


def test_transparent_is_no_rule_and_no_count() -> None:
    bound = compile_policy(TRANSPARENT, STANDARD)
    assert not any(bound.plan.operations)
    assert isinstance(bound.judge(command("FLUSHALL"), context()).verdict, Pass)


def readme_examples() -> list[str]:
    text = (Path(__file__).resolve().parents[2] / "policies" / "README.md").read_text(encoding="utf-8")
    return re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("example", readme_examples(), ids=lambda example: example.split()[0])
def test_the_examples_of_the_readme_load(example: str) -> None:
    body = example.removeprefix("keyrail: 1")
    assert policy(body if "rules:" in example else "rules:\n" + body).rules


def test_the_readme_has_an_example_of_each_guardrail() -> None:
    text = "".join(readme_examples())
    assert all(f"{key}: " in text or f"{key}:\n" in text for key in GUARDRAILS)


def test_the_readmes_links_lead_somewhere() -> None:
    text = (Path(__file__).resolve().parents[2] / "policies" / "README.md").read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 _-]", "", each.lower()).replace(" ", "-") for each in headings}
    linked = set(re.findall(r"\]\(#([^)]*)\)", text))
    assert linked <= anchors
    (table,) = re.findall(r"\| about \| guardrails \|\n(.*?)\n\n", text, re.DOTALL)
    named = {key for names in re.findall(r"\[([^]]*)\]\(#", table) for key in names.split(", ")}
    assert named == set(GUARDRAILS)


def test_the_readme_shows_real_errors() -> None:
    text = (Path(__file__).resolve().parents[2] / "policies" / "README.md").read_text(encoding="utf-8")
    example = next(each for each in readme_examples() if "no-flush" in each)
    judge = compile_policy(policy("defaults: {mode: enforce}\nrules:\n" + example), STANDARD).judge
    verdict = judge(command("FLUSHALL"), context()).verdict
    assert isinstance(verdict, Refuse)
    assert verdict.error.decode().strip() in text
