"""All verbs and their options: what a command line asks for."""

import argparse
from collections.abc import Callable, Sequence
from typing import NamedTuple

from proxy import __version__
from proxy.cli import check, doctor, explain, incidents, kill_switch, policy, remedy, schema, serve, top
from proxy.cli.line import LineParser
from proxy.form import FORM


class Parsed(NamedTuple):
    """A verb, which returns the exit status, and the options that it was given."""

    verb: Callable[[argparse.Namespace], int]
    options: argparse.Namespace


def parse(arguments: Sequence[str] | None) -> Parsed:
    """What ``arguments`` (None: those of this process) ask for; leaves by SystemExit where they ask for nothing."""
    parser = LineParser("keyrail", description="A guardrail proxy that speaks the Redis protocol.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"keyrail {__version__} ({FORM})")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=LineParser)
    for module in (serve, check, doctor, explain, policy, schema, kill_switch, incidents, remedy, top):
        module.add_verb(verbs)
    options = parser.parse_args(arguments)
    return Parsed(options.run, options)
