"""`keyrail doctor --upstream URL --policy FILE`: the verb, and its exit status."""

import argparse
import asyncio
import logging
from pathlib import Path

from proxy.cli.line import LineParser
from proxy.net.config.address import UpstreamAddress, parse_listen, parse_upstream
from proxy.net.config.client_auth import ClientAuth, read_client_auth
from proxy.net.config.settings import PolicySource
from proxy.server.config import listener_of
from proxy.server.option_readers import read_policy


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    parser = verbs.add_parser(
        "doctor",
        help="examine a Redis and a policy before any traffic",
        allow_abbrev=False,
        description="Connect to Redis as `serve` would, write nothing, and report problems and their remedies. "
        "Exit status: 0, 1 with warnings, 2 if Keyrail would not serve.",
    )
    parser.add_argument("--upstream", type=parse_upstream, default=UpstreamAddress(), metavar="URL", help="the Redis")
    parser.add_argument(
        "--policy", type=read_policy, default=PolicySource(), metavar="FILE|none", help="the policy (default: default)"
    )
    parser.add_argument("--listen", type=parse_listen, action="append", metavar="URL", help="where clients connect")
    parser.add_argument("--client-auth", type=read_client_auth, metavar="none|upstream", help="as for serve")
    parser.add_argument("--client-password-file", type=Path, metavar="FILE", help="as for serve")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Examine, print the findings, and return the gravity of the worst."""
    from proxy.cli.doctor.diagnosis import examine  # noqa: PLC0415  slow to import, and other verbs don't need it

    how = parsed.client_auth or ClientAuth.NONE if parsed.client_password_file is None else ClientAuth.FILE
    listeners = tuple(listener_of(address, how, parsed.client_password_file) for address in parsed.listen or ())
    logging.disable()  # the findings say it
    found = asyncio.run(examine(parsed.upstream, parsed.policy, listeners))
    for finding in found:
        print(finding)
    return max(finding.gravity for finding in found)
