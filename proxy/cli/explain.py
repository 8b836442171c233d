"""`keyrail explain [--policy FILE] [--app A] -- SET user:1 x`: show what each rule does with a command, and why."""

import argparse
import sys
import time
from random import random

from proxy.cli.line import LineParser, ip, listener, number, policy_file
from proxy.commands.table import STANDARD
from proxy.policy.apps import App, Caller, identify
from proxy.policy.compile import PolicyCompiler
from proxy.policy.explain import explain
from proxy.policy.load import load_policy
from proxy.policy.model import Policy
from proxy.policy_yaml.errors import PolicyError
from proxy.policy_yaml.shipped import shown_file
from proxy.rules.context import Context
from proxy.traffic.exemplars import ExemplarError, expanded

_INVALID = 2
_MOST_DATABASES = 999_999_999
_DEFAULT_USER = "default"


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    parser = verbs.add_parser(
        "explain",
        help="show what a policy does with a command, and why",
        allow_abbrev=False,
        description="Judge one command as `serve` does, and print each rule's verdict and mode, the place that sets "
        "the mode, and the bytes that would go to Redis. Jitter is left out. An argument '<59 bytes>', as exemplars "
        "have it, stands for as many bytes.",
    )
    parser.add_argument(
        "--policy",
        metavar="FILE",
        type=policy_file,
        default="default",
        help="a YAML file, or a packaged policy (default: default)",
    )
    parser.add_argument("--app", metavar="APP", help="as a client of this app of the policy")
    parser.add_argument("--user", metavar="USER", default=_DEFAULT_USER, help="as this user of Redis")
    parser.add_argument("--client-name", metavar="NAME", default="", help="as a client of this name")
    parser.add_argument(
        "--listener",
        metavar="URL",
        type=listener,
        help="as a client of this listener, written as for `serve --listen`",
    )
    parser.add_argument("--address", metavar="IP", type=ip, help="as a client with this IP address")
    parser.add_argument("--database", metavar="N", type=number(0, _MOST_DATABASES), default=0, help="in this database")
    parser.add_argument("command", nargs="+", metavar="ARGUMENT", help="the command, after --")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Explain the command; return the exit status."""
    try:
        policy = load_policy(parsed.policy)
        app = _app(policy, parsed)
        argv = expanded(parsed.command)
    except (PolicyError, _UnknownAppError, ExemplarError) as error:
        for line in str(error).splitlines():
            print(f"keyrail: {line}", file=sys.stderr)
        return _INVALID
    compiled = PolicyCompiler(policy, STANDARD).bind(app)
    client = (parsed.user, parsed.client_name, parsed.database, False, time.time(), random, compiled.app)
    context = Context(*client, address=parsed.address or "")
    print(explain(compiled, argv, context, parsed.listener or ""))
    return 0


class _UnknownAppError(Exception):
    """The policy has no such app."""


def _app(policy: Policy, parsed: argparse.Namespace) -> App | None:
    if parsed.app is None:
        caller = Caller(parsed.user, parsed.client_name, parsed.listener or "", address=parsed.address or "")
        return identify(policy.apps, caller)
    for app in policy.apps:
        if app.name == parsed.app:
            return app
    known = ", ".join(app.name for app in policy.apps) or "it has none"
    raise _UnknownAppError(f"--app {parsed.app}: expected an app of {shown_file(policy.source)}: {known}")
