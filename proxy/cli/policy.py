"""`keyrail policy schema`: print the JSON Schema of policy files, for editors."""

import argparse
import json

from proxy.cli.line import LineParser
from proxy.policy.json_schema import json_schema


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    """Add `policy` and its subcommands."""
    parser = verbs.add_parser("policy", help="the format of policy files", allow_abbrev=False)
    questions = parser.add_subparsers(dest="question", metavar="QUESTION", required=True, parser_class=LineParser)
    schema = questions.add_parser(
        "schema",
        help="print a JSON Schema of policy files",
        allow_abbrev=False,
        description="Print the JSON Schema of policy files. Editors use it to complete and check policy files.",
    )
    schema.set_defaults(run=_print_schema)


def _print_schema(_parsed: argparse.Namespace) -> int:
    print(json.dumps(json_schema(), indent=2))
    return 0
