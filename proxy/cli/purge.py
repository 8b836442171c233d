"""`keyrail purge`: delete stored keys by pattern, owner and idle time, or let them expire."""

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from proxy.cli.change_text import text
from proxy.cli.line import LineParser, number
from proxy.cli.walk import FAILED, INVALID, add_walk_options, drive, load
from proxy.cluster.key_pattern import LONGEST
from proxy.net.connection.tls import FollowedContext
from proxy.policy.model import Policy
from proxy.policy.wording import shown_by
from proxy.server.option_readers import read_time_back
from proxy.server.stored.changes.journal import Journal, JournalError
from proxy.server.stored.changes.model import Outcome
from proxy.server.stored.changes.node import Changes
from proxy.server.stored.changes.purge import LONGEST_IDLE, SPREAD, Purge, Wanted
from proxy.server.stored.judging import StoredJudge
from proxy.server.stored.model import Scan
from proxy.server.stored.page import MEMBERS_OF
from proxy.server.stored.scanner import Options, Scanner, WallClock

_MOST = 10**15


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    parser = verbs.add_parser(
        "purge",
        help="delete stored keys by pattern, owner and idle time",
        allow_abbrev=False,
        description="Walk all keys of a database, and delete those that match a pattern and all else that is given. "
        "Each key is checked again in one step with its deletion. Exit status: 0, 1 if a key could not be deleted or "
        "nothing was confirmed, 2 if an option or the policy is not valid, 130 for Ctrl-C.",
    )
    add_walk_options(parser)
    parser.add_argument(
        "--pattern", type=_pattern, required=True, metavar="GLOB", help="of names, as SCAN has it: * ? [a-z] \\"
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
    parser.add_argument("--limit", type=number(1, _MOST), metavar="N", help="at most so many keys")
    doing = parser.add_mutually_exclusive_group()
    doing.add_argument("--dry-run", action="store_true", help="only say what would go")
    doing.add_argument("--yes", action="store_true", help="do not ask for a confirmation")
    kept = parser.add_mutually_exclusive_group()
    kept.add_argument("--journal", metavar="FILE", type=Path, help="write what is done into this new file")
    kept.add_argument("--state-dir", metavar="DIR", type=Path, help="write it into a new file in this folder")
    parser.set_defaults(run=run)


def _pattern(given: str) -> bytes:
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
    if problem := _problem(parsed, policy):
        print(f"keyrail: {problem}", file=sys.stderr)
        return INVALID
    purging = _Purging(parsed, policy, tls)
    limit = parsed.limit
    if not parsed.yes:
        status, found = purging.walk(None, limit)
        if status or parsed.dry_run or not found.keys:
            return status
        if not _confirmed(found.keys, purging.doing):
            print("keyrail: not confirmed: nothing was done", file=sys.stderr)
            return FAILED
        limit = found.keys
    try:
        journal = Journal(_journal(parsed), purging.header)
    except (JournalError, OSError) as error:
        print(f"keyrail: {error}", file=sys.stderr)
        return FAILED
    status, _ = purging.walk(journal, limit)
    return status


def _problem(parsed: argparse.Namespace, policy: Policy) -> str:
    """What is wrong with the options."""
    if parsed.owner and parsed.owner not in {app.name for app in policy.apps}:
        return f"--owner {parsed.owner}: the policy has no such app"
    if parsed.yes and not parsed.pattern.strip(b"*?") and not (parsed.owner or parsed.without_ttl):
        return "--yes is not enough for a pattern of all keys: add --owner or --without-ttl, or confirm by typing"
    if not parsed.dry_run and parsed.journal is None and parsed.state_dir is None:
        return "add --journal FILE or --state-dir DIR for the list of what is done, or --dry-run"
    if parsed.journal is not None and parsed.journal.exists():
        return f"--journal {parsed.journal}: the file is there already"
    return ""


def _confirmed(keys: int, doing: str) -> bool:
    print(f"\nType {keys} to {doing}: ", end="", flush=True)
    return sys.stdin.readline().strip() == str(keys)


def _journal(parsed: argparse.Namespace) -> Path:
    if parsed.state_dir is None:
        return Path(parsed.journal)
    folder = Path(parsed.state_dir)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / datetime.now(UTC).strftime("purge-%Y%m%dT%H%M%SZ.jsonl")


class _Purging:
    """What the options ask for. ``doing`` says it in a few words, ``header`` is the journal's first line."""

    def __init__(self, parsed: argparse.Namespace, policy: Policy, tls: FollowedContext | None) -> None:
        self._parsed = parsed
        self._tls = tls
        self._judge = StoredJudge(policy, time.time())
        self._show: Callable[[bytes], str] = shown_by(policy.redact)
        self._wanted = Wanted(
            parsed.pattern,
            parsed.type,
            parsed.owner,
            parsed.without_ttl,
            parsed.idle,
            parsed.expire,
            parsed.upstream.database,
        )
        self.doing = "delete them" if parsed.expire is None else "let them expire"
        pattern = parsed.pattern.decode("utf-8", "surrogateescape")
        asked = {name: getattr(parsed, name) for name in ("type", "owner", "without_ttl", "idle", "expire", "limit")}
        self.header = {"keyrail": "purge", "upstream": str(parsed.upstream), "pattern": pattern, **asked}

    def walk(self, journal: Journal | None, limit: int | None) -> tuple[int, Scan]:
        """Do it, or without a journal only count; print the result. Return the exit status, and what was walked."""
        purge = Purge(self._wanted, self._judge.forbidden_by, random.random)
        changes = Changes(purge, journal, limit)
        scanner = Scanner(
            self._parsed.upstream,
            self._tls,
            self._judge,
            self._show,
            Options(self._parsed.share),
            WallClock(),
            changes,
        )
        status = asyncio.run(drive(scanner))
        scan, found = scanner.result(str(self._parsed.policy)), changes.found
        if not (status and scan.keys == found.unknown == 0):
            print(text(scan, found, self._what(dry=journal is None), self._show))
        if journal is None:
            print("\n".join(self._meaning()))
        else:
            journal.close()
        failed = found.unknown or found.outcomes[Outcome.REFUSED] or found.outcomes[Outcome.BUSY]
        return status or (FAILED if failed else 0), scan

    def _what(self, *, dry: bool) -> str:
        wanted = self._wanted
        if wanted.expire is None:
            return "would be deleted" if dry else "deleted"
        return "would get a TTL" if dry else "got a TTL"

    def _meaning(self) -> list[str]:
        """What a key must still be right before it is changed."""
        wanted = self._wanted
        kept = "has no TTL" if wanted.without_ttl else "has no TTL, or a TTL that was not renewed, as it was found"
        idle = "" if wanted.idle is None else f", and was not used for {wanted.idle:,} s"
        step = (
            "is deleted" if wanted.expire is None else f"gets a TTL of {wanted.expire:,} s and up to {SPREAD:.0%} more"
        )
        return [
            "",
            f"A key {step} if in the same step it still has its type, {kept}{idle}.",
            "Everything else counts as changed, and is left alone. A new value of the same type is not noticed.",
        ]
