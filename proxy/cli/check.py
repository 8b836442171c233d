"""`keyrail check FILE…`: load policies as `serve` does, and run their tests."""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from proxy.cli.line import LineParser, policy_file
from proxy.policy.expectations import run_tests
from proxy.policy.load import load_policy
from proxy.policy.model import Policy
from proxy.policy.precedence import spent
from proxy.policy_yaml.errors import PolicyError
from proxy.policy_yaml.shipped import shown_file

_FAILED, _INVALID = 1, 2


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    parser = verbs.add_parser(
        "check",
        help="validate policies and run their tests",
        allow_abbrev=False,
        description="Load each policy with all that it includes, run its tests, and name the rules that no test "
        "reaches. Exit status: 0, 1 if a test failed, 2 if a policy is not valid.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", type=policy_file, help="a YAML file, or a packaged policy")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Check each file; return the worst exit status."""
    return max(_check(file) for file in parsed.files)


def _size_notes(policy: Policy) -> Iterator[str]:
    """What `members` means, if the policy limits the members of a write nowhere: its author may have meant that."""
    sizes = [(entry, entry.size) for entry in policy.schema.entries if entry.size is not None]
    if any(size.members_per_write is not None for _, size in sizes):
        return
    for entry, size in sizes:
        if size.most_members is not None:
            yield f"{entry.place}: {entry.title}: members limits the collection; members_per_write limits one write"


def _check(path: Path) -> int:
    file = shown_file(str(path))
    try:
        policy = load_policy(path)
    except PolicyError as error:
        for problem in error.problems:
            print(problem)
        print(f"{file}: not valid")
        return _INVALID
    for warning in policy.warnings:
        print(f"WARN {warning}")
    for note in _size_notes(policy):
        print(f"NOTE {note}")
    now = time.time()
    for exception in spent(policy, now):
        ended = f"the exception from {exception.rule} is over since {exception.until}"
        print(f"WARN {exception.where}: {ended}: take it out")
    report = run_tests(policy, now)
    for outcome in report.outcomes:
        print(outcome)
    if report.unreached:
        print(f"{file}: no test reaches {', '.join(report.unreached)}")
    passed = len(report.outcomes) - report.failed
    rules = "1 rule" if len(policy.rules) == 1 else f"{len(policy.rules)} rules"
    print(f"{file}: valid; {rules}; tests: {passed} passed, {report.failed} failed")
    return _FAILED if report.failed else 0
