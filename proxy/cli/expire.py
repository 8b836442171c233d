"""`keyrail expire`: give stored keys without a TTL the one that a rule of the policy has for them, and take it back."""

import argparse
import random
import sys
import time
from functools import partial
from pathlib import Path

from proxy.cli.changing import Changing, Words, add_change_options, problem_of
from proxy.cli.line import LineParser
from proxy.cli.walk import INVALID, add_walk_options, load
from proxy.net.connection.tls import FollowedContext
from proxy.policy.model import Policy
from proxy.policy.wording import shown_by
from proxy.rules.stored import StoredKey
from proxy.server.stored.changes.expire import Expire, Undo
from proxy.server.stored.changes.journal import JournalError, read_expiries
from proxy.server.stored.judging import StoredJudge

_EXPIRING = Words(
    "expire",
    "would get a TTL",
    "got a TTL",
    "let them expire",
    "A key gets a TTL if in the same step it still has its type, and no TTL.",
)
_UNDOING = Words(
    "undo",
    "would lose their TTL again",
    "lost their TTL again",
    "make them persistent",
    "A key loses its TTL if in the same step it still has its type, and expires at the time that the journal says;\n"
    "before Redis 7.0, within a second of it.",
)


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    parser = verbs.add_parser(
        "expire",
        help="give stored keys without a TTL that of the policy",
        allow_abbrev=False,
        description="Walk all keys of a database, and give those without a TTL the one that a rule of the policy has "
        "for them; or take it back from those that still have it. Exit status: 0, 1 if a key could not be changed or "
        "nothing was confirmed, 2 if an option or the policy is not valid, 130 for Ctrl-C, 143 for SIGTERM.",
    )
    add_walk_options(parser)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--no-ttl", action="store_true", help="give TTLs to keys that have none")
    which.add_argument("--undo", metavar="JOURNAL", type=Path, help="make persistent what this journal gave a TTL")
    parser.add_argument("--rule", metavar="NAME", default="", help="by this rule: a lifetime, or ttl of the schema")
    add_change_options(parser)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Say what would be done, have it confirmed, do it, and return the exit status."""
    loaded = load(parsed)
    if loaded is None:
        return INVALID
    policy, tls = loaded
    try:
        undo = None if parsed.undo is None else Undo(read_expiries(parsed.undo))
    except JournalError as error:
        print(f"keyrail: {error}", file=sys.stderr)
        return INVALID
    problem = _rule_problem(parsed, policy) if undo is None else _undo_problem(parsed, undo)
    if problem := problem or problem_of(parsed):
        print(f"keyrail: {problem}", file=sys.stderr)
        return INVALID
    return _expire(parsed, policy, tls) if undo is None else _undo(parsed, policy, tls, undo)


def _rule_problem(parsed: argparse.Namespace, policy: Policy) -> str:
    rules = [rule.name for rule in policy.rules if rule.settings.expires_keys]
    if parsed.rule in rules:
        return ""
    return f"--rule NAME: expected a rule that gives keys a TTL, one of {', '.join(rules) or 'none in this policy'}"


def _undo_problem(parsed: argparse.Namespace, undo: Undo) -> str:
    if parsed.rule:
        return "--rule is for --no-ttl: what to undo is in the journal"
    if undo.databases - {parsed.upstream.database}:
        return f"the journal is about database {', '.join(map(str, sorted(undo.databases)))}: add it to --upstream"
    return ""


def _expire(parsed: argparse.Namespace, policy: Policy, tls: FollowedContext | None) -> int:
    judge = StoredJudge(policy, time.time())

    def ttl_of(app: str, key: StoredKey, chance: float) -> int | None:
        return judge.ttl_by(parsed.rule, app, key, chance)

    new = partial(Expire, parsed.upstream.database, ttl_of, random.random)
    return Changing(parsed, tls, judge, shown_by(policy.redact), _EXPIRING).run(new, {"rule": parsed.rule})


def _undo(parsed: argparse.Namespace, policy: Policy, tls: FollowedContext | None, undo: Undo) -> int:
    changing = Changing(parsed, tls, StoredJudge(policy, time.time()), shown_by(policy.redact), _UNDOING)
    return changing.run(lambda: undo, {"undo": str(parsed.undo)})
