"""What the verbs share that change stored keys: tell what would be done, have it confirmed, do it, keep a journal."""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from proxy.cli.change_text import as_json, text
from proxy.cli.line import number
from proxy.cli.walk import FAILED, drive
from proxy.net.connection.tls import FollowedContext
from proxy.server.stored.changes.journal import Journal, JournalError
from proxy.server.stored.changes.model import Change, Outcome
from proxy.server.stored.changes.node import Changes
from proxy.server.stored.judging import StoredJudge
from proxy.server.stored.model import Scan
from proxy.server.stored.scanner import Options, Scanner, WallClock

_MOST = 10**15
_FAILURES = (Outcome.REFUSED, Outcome.BUSY, Outcome.TAKEN)
_CHANGED = "Everything else counts as changed, and is left alone. A new value of the same type is not noticed."


@dataclass(frozen=True, slots=True)
class Words:
    """What a verb says: its ``name`` in journals, what ``would`` be done with keys, what is ``done``, and what the
    typed number means (``doing``). ``meaning``: what a key must still be when it is changed."""

    name: str
    would: str
    done: str
    doing: str
    meaning: str = ""


def add_change_options(parser: argparse.ArgumentParser) -> None:
    """How many keys, whether to ask, and where the journal goes."""
    add_doing_options(parser)
    kept = parser.add_mutually_exclusive_group()
    kept.add_argument("--journal", metavar="FILE", type=Path, help="write what is done into this new file")
    kept.add_argument("--state-dir", metavar="DIR", type=Path, help="write it into a new file in this folder")


def add_doing_options(parser: argparse.ArgumentParser) -> None:
    """How many keys, and whether to ask."""
    parser.add_argument("--limit", type=number(1, _MOST), metavar="N", help="at most so many keys")
    doing = parser.add_mutually_exclusive_group()
    doing.add_argument("--dry-run", action="store_true", help="only say what would be done")
    doing.add_argument("--yes", action="store_true", help="do not ask for a confirmation")
    parser.add_argument("--json", action="store_true", help="print JSON; with --dry-run or --yes")


def problem_of(parsed: argparse.Namespace) -> str:
    """What is wrong with these options; "" if nothing is."""
    if problem := doing_problem_of(parsed):
        return problem
    if not parsed.dry_run and parsed.journal is None and parsed.state_dir is None:
        return "add --journal FILE or --state-dir DIR for the list of what is done, or --dry-run"
    if parsed.journal is not None and parsed.journal.exists():
        return f"--journal {parsed.journal}: the file is there already"
    return ""


def doing_problem_of(parsed: argparse.Namespace) -> str:
    """What is wrong with those of ``add_doing_options``; "" if nothing is."""
    unasked = parsed.json and not (parsed.dry_run or parsed.yes)
    return "--json needs --dry-run or --yes: nobody could confirm" if unasked else ""


def is_confirmed(keys: int, doing: str) -> bool:
    """Ask for the number of keys. If another one is typed, it is told that nothing was done."""
    print(f"\nType {keys} to {doing}: ", end="", flush=True)
    if sys.stdin.readline().strip() == str(keys):
        return True
    print("keyrail: not confirmed: nothing was done", file=sys.stderr)
    return False


class Changing:
    """One run of a verb, with the options that it was given."""

    def __init__(
        self,
        parsed: argparse.Namespace,
        tls: FollowedContext | None,
        judge: StoredJudge,
        show: Callable[[bytes], str],
        words: Words,
    ) -> None:
        self._parsed = parsed
        self._tls = tls
        self._judge = judge
        self._show = show
        self._words = words

    def run(self, new: Callable[[], Change], asked: Mapping[str, Any]) -> int:
        """Do what ``new`` changes do, as far as the options allow; the exit status. ``asked`` is for the journal."""
        limit = self._parsed.limit
        if not self._parsed.yes:
            status, found = self._walk(new(), None, limit)
            if status or self._parsed.dry_run or not found.keys:
                return status
            if not is_confirmed(found.keys, self._words.doing):
                return FAILED
            limit = found.keys
        header = {"keyrail": self._words.name, "upstream": str(self._parsed.upstream), **asked}
        try:
            journal = Journal(self._file(), header)
        except (JournalError, OSError) as error:
            print(f"keyrail: {error}", file=sys.stderr)
            return FAILED
        status, _ = self._walk(new(), journal, limit)
        journal.close()
        return status

    def count(self, change: Change) -> tuple[int, int]:
        """How many keys it would change, which is neither printed nor done, behind the exit status of the walk."""
        scanner = self._scanner(Changes(change, None))
        return asyncio.run(drive(scanner)), scanner.result(str(self._parsed.policy)).keys

    def _scanner(self, changes: Changes) -> Scanner:
        options = Options(self._parsed.share, name=f"keyrail-{self._words.name}")
        return Scanner(self._parsed.upstream, self._tls, self._judge, self._show, options, WallClock(), changes)

    def _file(self) -> Path:
        if self._parsed.state_dir is None:
            return Path(self._parsed.journal)
        folder = Path(self._parsed.state_dir)
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder / datetime.now(UTC).strftime(f"{self._words.name}-%Y%m%dT%H%M%SZ.jsonl")

    def _walk(self, change: Change, journal: Journal | None, limit: int | None) -> tuple[int, Scan]:
        # Without a journal it is only counted. The result is printed.
        changes, its = Changes(change, journal, limit), self._parsed
        scanner = self._scanner(changes)
        status = asyncio.run(drive(scanner))
        scan, found = scanner.result(str(its.policy)), changes.found
        what = self._words.would if journal is None else self._words.done
        if status and not scan.keys and not found.sent:
            pass  # it has said why on stderr
        elif its.json:
            print(json.dumps({"what": what, **as_json(scan, found, self._show)}, indent=2))
        else:
            print(text(scan, found, what, self._show))
            if journal is None:
                print(f"\n{self._words.meaning}\n{_CHANGED}")
        failed = found.unknown or any(found.outcomes[each] for each in _FAILURES)
        return status or (FAILED if failed else 0), scan
