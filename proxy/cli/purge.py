"""`keyrail purge`: delete stored keys by pattern, owner and idle time, or let them expire."""

import argparse
import random
import sys
import time
from dataclasses import replace

from proxy.cli.changing import Changing, Words, add_change_options, problem_of
from proxy.cli.line import LineParser
from proxy.cli.walk import INVALID, add_walk_options, load
from proxy.cluster.key_pattern import LONGEST
from proxy.policy.model import Policy
from proxy.policy.wording import shown_by
from proxy.server.option_readers import read_time_back
from proxy.server.stored.changes.model import Change
from proxy.server.stored.changes.purge import LONGEST_IDLE, SPREAD, Purge, Wanted
from proxy.server.stored.judging import StoredJudge
from proxy.server.stored.page import MEMBERS_OF

_DELETING = Words("purge", "would be deleted", "deleted", "delete them")
_EXPIRING = Words("purge", "would get a TTL", "got a TTL", "let them expire")


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    parser = verbs.add_parser(
        "purge",
        help="delete stored keys by pattern, owner and idle time",
        allow_abbrev=False,
        description="Walk all keys of a database, and delete those that match a pattern and all else that is given. "
        "Each key is checked again in one step with its deletion. Exit status: 0, 1 if a key could not be deleted or "
        "nothing was confirmed, 2 if an option or the policy is not valid, 130 for Ctrl-C, 143 for SIGTERM.",
    )
    add_walk_options(parser)
    parser.add_argument(
        "--pattern", type=pattern_of, required=True, metavar="GLOB", help="of names, as SCAN has it: * ? [a-z] \\"
    )
    parser.add_argument("--without-ttl", action="store_true", help="only keys without a TTL")
    parser.add_argument(
        "--idle", type=_idle, metavar="TIME", help="only keys that nobody used for so long, such as 30d"
    )
    parser.add_argument("--type", choices=MEMBERS_OF, default="", help="only keys of this type")
    parser.add_argument("--owner", metavar="APP", default="", help="only keys of this app of the policy")
    parser.add_argument(
        "--expire", type=_time, metavar="TIME", help="do not delete, but let keys expire after so long, such as 7d"
    )
    add_change_options(parser)
    parser.set_defaults(run=run)


def pattern_of(given: str) -> bytes:
    """A pattern of names. Raises ArgumentTypeError."""
    found = given.encode("utf-8", "surrogateescape")
    if not 0 < len(found) <= LONGEST:
        raise argparse.ArgumentTypeError(f"expected a pattern of 1 to {LONGEST} bytes, such as cart:*")
    return found


def _time(given: str) -> int:
    try:
        seconds = round(read_time_back(given))
    except ValueError:
        seconds = 0
    if seconds < 1:
        raise argparse.ArgumentTypeError(f"expected a time from 1s, such as 12h or 7d, got {given!r}")
    return seconds


def _idle(given: str) -> int:
    seconds = _time(given)
    if seconds > LONGEST_IDLE:
        raise argparse.ArgumentTypeError(
            f"expected at most {LONGEST_IDLE // 86_400}d: Redis counts no longer idle times"
        )
    return seconds


def run(parsed: argparse.Namespace) -> int:
    """Say what would go, have it confirmed, do it, and return the exit status."""
    loaded = load(parsed)
    if loaded is None:
        return INVALID
    policy, tls = loaded
    if problem := _problem(parsed, policy) or problem_of(parsed):
        print(f"keyrail: {problem}", file=sys.stderr)
        return INVALID
    judge = StoredJudge(policy, time.time())
    wanted = Wanted(
        parsed.pattern,
        parsed.type,
        parsed.owner,
        parsed.without_ttl,
        parsed.idle,
        parsed.expire,
        parsed.upstream.database,
    )
    pattern = parsed.pattern.decode("utf-8", "surrogateescape")
    asked = {name: getattr(parsed, name) for name in ("type", "owner", "without_ttl", "idle", "expire", "limit")}

    def new() -> Change:
        return Purge(wanted, judge.forbidden_by, random.random)

    words = _DELETING if parsed.expire is None else _EXPIRING
    words = replace(words, meaning=_meaning(wanted))
    return Changing(parsed, tls, judge, shown_by(policy.redact), words).run(new, {"pattern": pattern, **asked})


def _problem(parsed: argparse.Namespace, policy: Policy) -> str:
    """What is wrong with the options."""
    if parsed.owner and parsed.owner not in {app.name for app in policy.apps}:
        return f"--owner {parsed.owner}: the policy has no such app"
    if parsed.yes and not parsed.pattern.strip(b"*?") and not (parsed.owner or parsed.without_ttl):
        return "--yes is not enough for a pattern of all keys: add --owner or --without-ttl, or confirm by typing"
    return ""


def _meaning(wanted: Wanted) -> str:
    kept = "has no TTL" if wanted.without_ttl else "has no TTL if it had none, or one with no more left than there was"
    idle = "" if wanted.idle is None else f", and was not used for {wanted.idle:,} s"
    step = "is deleted" if wanted.expire is None else f"gets a TTL of {wanted.expire:,} s and up to {SPREAD:.0%} more"
    return f"A key {step} if in the same step it still has its type, {kept}{idle}."
