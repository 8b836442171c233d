"""Runs the tests of policies when they come into force: at the start and at each reload.

A policy that is valid can still be another one than its author meant, which is what its tests tell. `keyrail check`
runs them, too, but nobody has to run `check`.
"""

import time
from collections.abc import Sequence

from proxy.net.config.settings import PolicyKind, RouteSettings
from proxy.policy.expectations import PolicyTestReport, run_tests
from proxy.policy.model import Policy

SECONDS = 5.0
"""How long the tests of one policy may take."""
_MOST_LINES = 10


def failing(routes: Sequence[RouteSettings], policies: Sequence[Policy]) -> tuple[str, ...]:
    """Run the tests of the policies of these routes that are files of the operator; return a line for each that failed.

    It may take some time: not for an event loop.
    """
    sources = {route.policy: policy for route, policy in zip(routes, policies, strict=True)}
    return tuple(
        line
        for source, policy in sources.items()
        if source.kind is PolicyKind.FILE
        for line in _lines(str(source), policy)
    )


def _lines(source: str, policy: Policy) -> list[str]:
    end = time.monotonic() + SECONDS
    report = run_tests(policy, time.time(), lambda: time.monotonic() > end)
    lines = [f"policy test: {outcome}" for outcome in report.outcomes if not outcome.passed]
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES:] = [f"policy test: {len(lines) - _MOST_LINES} more failed: run keyrail check {source}"]
    return lines + _unrun(source, policy, report)


def _unrun(source: str, policy: Policy, report: PolicyTestReport) -> list[str]:
    missing = len(policy.tests) - len(report.outcomes)
    ran = f"{missing} of {len(policy.tests)} tests of {source} did not run within {SECONDS:.0f} s"
    return [f"policy test: {ran}: run keyrail check {source}"] if missing else []
