"""Keyrail accepts the examples in docs/policies.md and docs/guardrails.md, and their errors are real."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proxy.commands.table import STANDARD
from proxy.policy.expectations import run_tests
from proxy.policy.load import load_policy
from proxy.policy_yaml.shipped import packaged
from proxy.rules.guardrails import GUARDRAILS
from proxy.rules.verdict import Refuse
from tests.policy.given import compile_policy, policy, policy_files
from tests.readme.blocks import DOCS, blocks_of
from tests.rules.given import command, context

LANGUAGE = DOCS / "policies.md"
REFERENCE = DOCS / "guardrails.md"


def examples() -> list[str]:
    """The rules that the pages show, and whole policies."""
    return [block.text for page in (LANGUAGE, REFERENCE) for block in blocks_of("yaml", page)]


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.split()[0])
def test_the_examples_load(example: str) -> None:
    body = re.sub(r"^keyrail: 1", "", example, flags=re.MULTILINE)
    assert policy(body if "rules:" in example else "rules:\n" + body).rules


def test_the_policy_for_many_teams_passes_its_tests(tmp_path: Path) -> None:
    (example,) = blocks_of("yaml policy", LANGUAGE)
    files = {"redis.yaml": example.text, "apps/checkout.yaml": "app: checkout"}
    report = run_tests(policy_files(tmp_path, files), 0.0)
    assert [str(outcome) for outcome in report.outcomes if not outcome.passed] == []
    assert report.unreached == ()


def test_each_guardrail_has_an_example_and_a_place_in_the_table() -> None:
    text = "".join(examples())
    assert all(f"{key}: " in text or f"{key}:\n" in text for key in GUARDRAILS)
    (table,) = re.findall(r"\| about \| guardrails \|\n(.*?)\n\n", REFERENCE.read_text("utf-8"), re.DOTALL)
    named = {key for names in re.findall(r"\[([^]]*)\]\(#", table) for key in names.split(", ")}
    assert named == set(GUARDRAILS)


def test_the_error_of_refuse_is_real() -> None:
    example = next(each for each in examples() if each.lstrip().startswith("no-flush"))
    judge = compile_policy(policy("defaults: {mode: enforce}\nrules:\n" + example), STANDARD).judge
    verdict = judge(command("FLUSHALL"), context()).verdict
    assert isinstance(verdict, Refuse)
    assert verdict.error.decode().strip() in REFERENCE.read_text("utf-8")


def test_the_error_for_flask_limiter_is_what_strict_yaml_says() -> None:
    key = "LIMITS:LIMITER/10.0.0.1/login/5/1/minute"
    verdict = compile_policy(load_policy(packaged("strict")), STANDARD).judge(command(f"GET {key}"), context()).verdict
    assert isinstance(verdict, Refuse)
    assert f"\n    {verdict.error.decode().rstrip()}\n" in REFERENCE.read_text("utf-8")
