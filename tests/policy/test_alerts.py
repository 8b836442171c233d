"""The policy sets the thresholds of incidents; without them, the defaults apply."""

import pytest

from proxy.policy_yaml.errors import PolicyError
from proxy.traffic.alerts import Alerts, Hot
from tests.policy.given import policy


def test_thresholds() -> None:
    assert policy("rules: {}").alerts == Alerts()
    found = policy("rules: {}\nalerts: {hot_key: {share: 2.5%, rate: 30/s}, hot_slot: {rate: 9/s}, big_value: 10KB}")
    assert found.alerts == Alerts(Hot(0.025, 30.0), Hot(Alerts().hot_slot.share, 9.0), 10_240)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{hot_key: {share: 1}}", "alerts.hot_key.share: found '1', expected a percentage"),
        ("{hot_key: {rate: 5}}", "alerts.hot_key.rate: found '5', expected a number per second"),
        ("{hot_slot: [a]}", "alerts.hot_slot: found a list, expected a mapping"),
        ("{cold_key: {}}", "alerts.cold_key: found an unknown key"),
    ],
)
def test_mistakes(text: str, problem: str) -> None:
    with pytest.raises(PolicyError, match=problem):
        policy(f"rules: {{}}\nalerts: {text}")


def test_both_must_be_surely_reached() -> None:
    hot = Hot(0.1, 100.0)
    assert hot.reached(1000, 10_000, 10)
    assert not hot.reached(999, 9_000, 10), "a share of little"
    assert not hot.reached(1000, 10_001, 10), "much of more"
    assert hot.milder(0.5).reached(500, 10_000, 10)
