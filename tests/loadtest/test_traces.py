"""The benchmark's "off" counts nothing, and has the same rules."""

from pathlib import Path

from loadtest.quick import Sample
from loadtest.report import traces_markdown
from loadtest.traces import OFF, ON, uncounted
from proxy.policy.load import load_policy
from proxy.policy_yaml.shipped import packaged


def test_off_is_the_same_policy_that_counts_no_keys(tmp_path: Path) -> None:
    whole = load_policy(packaged("bench"))
    file = tmp_path / "uncounted.yaml"
    file.write_text(uncounted(packaged("bench").read_text(encoding="utf-8")), encoding="utf-8")
    loaded = load_policy(file)
    assert (whole.count_keys, loaded.count_keys) == (True, False)
    assert loaded.rule_names == whole.rule_names


def test_on_is_held_against_off_within_a_round() -> None:
    def sample(target: str, number: int, rate: float, cpu: float) -> Sample:
        return Sample("GET", 16, target, number, rate, 0.1, 0.2, cpu, 1.0)

    samples = [sample(OFF, 0, 100.0, 1.0), sample(ON, 0, 90.0, 1.5)]
    samples += [sample(OFF, 1, 50.0, 3.0), sample(ON, 1, 49.0, 3.0)]
    page = traces_markdown(samples, {"machine": "test"})
    assert "| GET, P=16 | 0.94 (0.90–0.98) | 1.25 (1.00–1.50) | 1.12 (1.00–1.25) |" in page
