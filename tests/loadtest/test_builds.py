"""Two builds are compared cell by cell, within a round."""

from loadtest import builds
from loadtest.quick import Sample
from loadtest.report import builds_markdown


def test_ratios_are_taken_within_a_round() -> None:
    def sample(policy: str, build: str, number: int, cpu: float) -> Sample:
        return Sample("GET", 16, builds.named(policy, build), number, 100.0 / cpu, 0.1, 0.2, cpu, 1.0)

    samples = [sample("none", builds.BEFORE, 0, 1.0), sample("none", builds.AFTER, 0, 1.1)]
    samples += [sample("none", builds.BEFORE, 1, 4.0), sample("none", builds.AFTER, 1, 3.6)]
    samples += [sample("strict", builds.BEFORE, 0, 1.0), sample("strict", builds.AFTER, 0, 1.2)]
    page = builds_markdown(samples, {"machine": "test"})
    assert "| none: GET, P=16 | 1.00 (0.90–1.10) | 2.50 |" in page
    assert "| strict: GET, P=16 | 1.20 (1.20–1.20) | 1.00 |" in page
    assert "over the 2 cells: median 1.10, largest 1.20." in page
