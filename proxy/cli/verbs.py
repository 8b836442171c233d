"""All verbs and their options: parses the command line."""

import argparse
from collections.abc import Callable, Sequence
from typing import NamedTuple

from proxy import __version__
from proxy.build_form import BUILD_FORM
from proxy.cli import (
    acl,
    check,
    diff,
    doctor,
    expire,
    explain,
    incidents,
    init,
    kill_switch,
    learn,
    policy,
    purge,
    ready,
    remedy,
    report,
    scan,
    schema,
    serve,
    top,
)
from proxy.cli.line import LineParser


class Parsed(NamedTuple):
    """A verb, as a function that returns the exit status, and its options."""

    verb: Callable[[argparse.Namespace], int]
    options: argparse.Namespace


def parse(arguments: Sequence[str] | None) -> Parsed:
    """Parse ``arguments`` (None: those of this process). Raises SystemExit if they name no verb or are wrong."""
    parser = LineParser("keyrail", description="A guardrail proxy that speaks the Redis protocol.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"keyrail {__version__} ({BUILD_FORM})")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=LineParser)
    before, running = (init, check, doctor, explain, acl, policy, schema), (kill_switch, incidents, remedy, top)
    for module in (serve, *before, *running, report, ready, diff, learn, scan, purge, expire):
        module.add_verb(verbs)
    options = parser.parse_args(arguments)
    return Parsed(options.run, options)
