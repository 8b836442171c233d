"""`keyrail learn [--since 7d] [--app A] [--detail] > policy.yaml`: write a policy that describes what was seen."""

import argparse
import sys

from proxy.cli.evidence_source import SourceError, add_source_options, evidence_of
from proxy.cli.line import LineParser
from proxy.server.evidence.learn.learn import NoEvidenceError, learn

_NOTHING = 1


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    """Add `learn`."""
    parser = verbs.add_parser(
        "learn",
        help="write a policy from what clients have sent",
        allow_abbrev=False,
        description="Write a policy from evidence: the keys as a schema with apps, types, TTLs and sizes, and the "
        "commands of each app. All rules are in audit, and none refuses what was seen. Exit status: 0, 1 if there is "
        "no evidence, 2 for a mistake.",
    )
    add_source_options(parser)
    parser.add_argument("--app", metavar="APP", default="", help="only what this app of the policy in force has sent")
    parser.add_argument("--detail", action="store_true", help="up to 400 patterns of keys in place of 40")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Print the policy; return the exit status."""
    try:
        print(learn(evidence_of(parsed), parsed.app, detail=parsed.detail), end="")
    except SourceError as error:
        print(f"keyrail: {error}", file=sys.stderr)
        return error.status
    except NoEvidenceError as error:
        print(f"keyrail: {error}", file=sys.stderr)
        return _NOTHING
    return 0
