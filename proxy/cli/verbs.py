"""All verbs and their options: parses the command line."""

import argparse
import importlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from proxy import __version__
from proxy.build_form import BUILD_FORM
from proxy.cli.line import LineParser

VERBS = (
    "serve",
    "init",
    "check",
    "doctor",
    "explain",
    "acl",
    "policy",
    "schema",
    "kill-switch",
    "incidents",
    "remedy",
    "top",
    "report",
    "ready",
    "diff",
    "learn",
    "scan",
    "purge",
    "expire",
    "tenants",
    "transform",
    "train-dictionary",
)
"""In the order of the help; each has a module of this name."""


class Parsed(NamedTuple):
    """A verb, as a function that returns the exit status, and its options."""

    verb: Callable[[argparse.Namespace], int]
    options: argparse.Namespace


def parse(arguments: Sequence[str]) -> Parsed:
    """Parse ``arguments``. Raises SystemExit if they name no verb or are wrong."""
    parser = LineParser("keyrail", description="A guardrail proxy that speaks the Redis protocol.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"keyrail {__version__} ({BUILD_FORM})")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=LineParser)
    # To import the modules of all takes a quarter of a second.
    for verb in VERBS if not arguments or arguments[0] not in VERBS else arguments[:1]:
        importlib.import_module(f"proxy.cli.{verb.replace('-', '_')}").add_verb(verbs)
    options = parser.parse_args(arguments)
    return Parsed(options.run, options)
