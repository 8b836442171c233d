"""Variants of a policy for measuring: each is a policy with the rules in its name, enforced."""

from pathlib import Path

import pytest

from loadtest.quick import Sample
from loadtest.report import rules_markdown
from loadtest.rules import ALL_RULES, NO_RULE, variants
from loadtest.targets import KEYRAIL_NONE
from proxy.policy.load import load_policy
from proxy.policy.model import Mode
from proxy.policy_yaml.shipped import packaged


@pytest.mark.parametrize("name", ["bench", "tour"])
def test_each_rule_alone_and_all_together(name: str, tmp_path: Path) -> None:
    whole = load_policy(packaged(name))
    names = [rule.name for rule in whole.rules]
    found = variants(packaged(name).read_text(encoding="utf-8"))
    assert list(found) == [NO_RULE, *names, ALL_RULES]
    for variant, text in found.items():
        file = tmp_path / "variant.yaml"
        file.write_text(text, encoding="utf-8")
        loaded = load_policy(file)
        expected = {NO_RULE: [], ALL_RULES: names}.get(variant, [variant])
        on = [rule.name for rule in loaded.rules if variant == ALL_RULES or str(rule.mode) != "off"]
        assert on == expected
        assert loaded.default.mode is Mode.ENFORCE


def test_costs_are_taken_within_a_round() -> None:
    def sample(target: str, number: int, rate: float, cpu: float) -> Sample:
        return Sample("GET", 16, target, number, rate, 0.1, 0.2, cpu, 1.0)

    samples = [sample(NO_RULE, 0, 100.0, 1.0), sample("a", 0, 90.0, 1.2), sample(KEYRAIL_NONE, 0, 180.0, 1.0)]
    samples += [sample(NO_RULE, 1, 50.0, 2.0), sample("a", 1, 40.0, 2.4), sample(KEYRAIL_NONE, 1, 100.0, 1.0)]
    page = rules_markdown(samples, {"machine": "test"})
    assert "| a | 0.85 (0.80–0.90) | 0.45 (0.40–0.50) | +0.30 (+0.20 – +0.40) |" in page
    assert "| keyrail none |" not in page
