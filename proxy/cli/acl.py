"""`keyrail acl --policy FILE --for VERSION`: the ACL users of Redis that back a policy up."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from proxy.cli.acl_prove import Proof, ProofError, prove, recorded
from proxy.cli.line import LineParser, policy_file
from proxy.net.config.address import UpstreamAddress, parse_upstream
from proxy.policy.acl import VERSIONS, Acl, AclUser, Version, acl_of
from proxy.policy.acl.proof import Request, questions
from proxy.policy.acl.rights import Wider
from proxy.policy.load import load_policy
from proxy.policy.model import Policy
from proxy.policy_yaml.errors import PolicyError
from proxy.policy_yaml.shipped import shown_file
from proxy.traffic.key_text import printable

_FAILED, _INVALID = 1, 2
_EMBEDDED = "valkey-9"
_MOST_SHOWN = 6
_PLACEHOLDER = "#SHA256-OF-THE-PASSWORD"
"""Redis takes no such hash, so a file with this word is not loaded before somebody replaces it."""


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    parser = verbs.add_parser(
        "acl",
        help="print the ACL users of Redis that back a policy up",
        allow_abbrev=False,
        description="Print users and rules for Redis's own ACLs, so that Redis stops who goes around Keyrail. They are "
        "never narrower than the rules, and each place where they are wider is listed. Only --prove asks a server.",
    )
    parser.add_argument(
        "--policy", metavar="FILE", type=policy_file, required=True, help="a YAML file, or a packaged policy"
    )
    parser.add_argument(
        "--for", dest="version", choices=tuple(VERSIONS), required=True, help="the version of Redis or Valkey"
    )
    parser.add_argument(
        "--login", metavar="USER", type=_user, default="default", help="the user in --upstream (default: default)"
    )
    parser.add_argument(
        "--deny-scripts",
        action="store_true",
        help="deny scripts what clients are denied, although the policy may let such scripts pass",
    )
    parser.add_argument(
        "--prove",
        nargs="?",
        const=[],
        type=_server,
        metavar="URL",
        help="ask this server whether it agrees, about the commands of the policy's tests: one that nobody else uses, "
        f"without keys; without a URL it is the embedded Valkey (for {_EMBEDDED})",
    )
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        type=Path,
        help="with --prove: also about the commands that a Keyrail has recorded there",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--users-acl", action="store_true", help="print lines of an ACL file in place of commands")
    form.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run, mistake=parser.error)


def _server(text: str) -> list[UpstreamAddress]:
    try:
        address = parse_upstream(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if address.seeds or address.sentinels is not None:
        raise argparse.ArgumentTypeError("expected the URL of one server that nobody else uses")
    return [address]


def _user(text: str) -> str:
    if not text or not text.isprintable() or set(text) & set(" \"'\\"):
        raise argparse.ArgumentTypeError(f"expected a user's name without spaces and quotes, got {text!r}")
    return text


def run(parsed: argparse.Namespace) -> int:
    """Print the users; return the exit status."""
    if parsed.state_dir is not None and parsed.prove is None:
        parsed.mistake("--state-dir needs --prove")
    if parsed.prove == [] and parsed.version != _EMBEDDED:
        parsed.mistake(f"--prove needs the URL of a {parsed.version} that nobody else uses")
    try:
        policy = load_policy(parsed.policy)
    except PolicyError as error:
        for problem in error.problems:
            print(f"keyrail: {problem}", file=sys.stderr)
        return _INVALID
    version, now = VERSIONS[parsed.version], time.time()
    acl = acl_of(policy, version, now, parsed.login, scripts_too=parsed.deny_scripts)
    try:
        proof = None if parsed.prove is None else _proof(parsed, policy, acl, version, now)
    except ProofError as error:
        print(f"keyrail: --prove: {error}", file=sys.stderr)
        return _FAILED
    title = f"{printable(shown_file(policy.source))}, for {version.name}"
    if parsed.json:
        proved = {} if proof is None else {"proof": asdict(proof)}
        print(json.dumps(as_json(acl, policy.source, version.name) | proved, indent=2))
    else:
        print("\n".join([*text(acl, title, in_file=parsed.users_acl), *([] if proof is None else [_said(proof)])]))
    for fault in () if proof is None else proof.faults:
        print(f"keyrail: --prove: {fault}", file=sys.stderr)
    return _FAILED if proof is not None and proof.faults else 0


def _proof(parsed: argparse.Namespace, policy: Policy, acl: Acl, version: Version, now: float) -> Proof:
    requests = [Request(test.send) for test in policy.tests]
    if parsed.state_dir is not None:
        known = {app.name for app in policy.apps}
        requests += [Request(argv, app if app in known else "") for app, argv in recorded(parsed.state_dir)]
    if not requests:
        raise ProofError("there is nothing to ask: the policy has no tests, and nothing is recorded")
    asked = [*questions(policy, acl, version, [*dict.fromkeys(requests)], now)]
    return asyncio.run(prove(acl, version, asked, next(iter(parsed.prove), None)))


def _said(proof: Proof) -> str:
    if proof.faults:
        return f"#\n# not proved: {proof.engine} answers {len(proof.faults)} of {proof.questions} questions otherwise"
    unknown = f"; it does not know {proof.unknown} of these commands" if proof.unknown else ""
    return f"#\n# proved: {proof.engine} answers all {proof.questions} questions as it must{unknown}"


def as_json(acl: Acl, source: str, version: str) -> dict[str, Any]:
    """All of it as plain data."""
    return {
        "policy": source,
        "for": version,
        "users": [
            {
                "user": user.name,
                "apps": [app for app in user.apps if app],
                "others": "" in user.apps,
                "rules": list(user.words),
                "setuser": _setuser(user),
                "if_redis_has_them": list(user.elsewhere),
                "wider": [{"rule": each.rule, "commands": list(each.commands), "why": each.why} for each in user.wider],
                "narrower": [{"commands": list(each.commands), "why": each.why} for each in user.narrower],
            }
            for user in acl.users
        ],
        "untold": list(acl.untold),
        "not_enforced": list(acl.not_enforced),
    }


def text(acl: Acl, title: str, *, in_file: bool) -> Iterator[str]:
    """The lines: comments, and one command, or one line of an ACL file, for each user."""
    less = "; where it runs less: narrower" if any(user.narrower for user in acl.users) else ""
    yield f"# {title}. Redis runs all that Keyrail passes; where it runs more, a line says: wider{less}"
    yield "# Passwords are not in here. " + (
        f"Replace each {_PLACEHOLDER}, and remove all comments." if in_file else "Add them: ACL SETUSER USER >PASSWORD"
    )
    yield from (f"# {printable(each)}" for each in acl.untold)
    if acl.not_enforced:
        yield f"# enforced for nobody, so not in here: {', '.join(map(printable, acl.not_enforced))}"
    everywhere = [each for each in acl.users[0].wider if all(each in user.wider for user in acl.users[1:])]
    if len(acl.users) > 1 and everywhere:
        yield from ("#", "# every user", *map(_shown, everywhere))
    for number, user in enumerate(acl.users):
        yield from ("#", f"# user {user.name}: {_described(user, is_login=number == 0)}")
        yield from (_shown(each) for each in user.wider if len(acl.users) == 1 or each not in everywhere)
        yield from (f"# narrower: {', '.join(each.commands)}: {each.why}" for each in user.narrower)
        if user.elsewhere:
            yield f"# if Redis has these commands, add: ACL SETUSER {user.name} {' '.join(user.elsewhere)}"
        yield " ".join(("user", user.name, _PLACEHOLDER, *user.words)) if in_file else _setuser(user)


def _setuser(user: AclUser) -> str:
    return " ".join(("ACL SETUSER", user.name, *user.words))


def _described(user: AclUser, *, is_login: bool) -> str:
    apps = [printable(app) for app in user.apps if app]
    whose = [f"of {' and '.join(apps)}"] if apps else []
    whose += ["of no app"] if "" in user.apps else []
    clients = f"clients {' and '.join(whose)}"
    return f"Keyrail's own login, and {clients}" if is_login else clients


def _shown(wider: Wider) -> str:
    names = [name.replace("|", " ") for name in wider.commands[:_MOST_SHOWN]]
    more = len(wider.commands) - len(names)
    shown = ", ".join(names) + (f" and {more} more" if more > 0 else "")
    return f"# wider: rule {printable(wider.rule)}: {shown}: {wider.why}"
