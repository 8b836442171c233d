"""`keyrail transform`: rewrite stored values as the compress rules of a policy say, and back."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from proxy.cli.changing import add_doing_options, doing_problem_of, is_confirmed
from proxy.cli.line import LineParser
from proxy.cli.purge import pattern_of
from proxy.cli.transform_text import as_json, text
from proxy.cli.walk import FAILED, INVALID, add_walk_options, drive, load
from proxy.cluster.key_pattern import KeyPattern
from proxy.net.connection.tls import FollowedContext
from proxy.policy.model import Policy
from proxy.policy.wording import shown_by
from proxy.rules.compress.stored_form import AsRule, Left, Plain, StoredForm
from proxy.rules.compress.terms import LARGEST_ABOVE
from proxy.server.stored.changes.rewrite import Rewrites
from proxy.server.stored.changes.rewritten import Rewritten
from proxy.server.stored.compressed_keys import CompressedKeys, CompressingRule
from proxy.server.stored.judging import StoredJudge
from proxy.server.stored.model import Scan
from proxy.server.stored.scanner import Options, Scanner, WallClock
from proxy.server.stored.totals import Judged

_MILD = Left("keys for whose owners the rule compresses nothing", compressed=False)
_UNREADABLE = "the user may not ask for their type and TTL"


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    parser = verbs.add_parser(
        "transform",
        help="compress stored values as a policy says, or make them plain again",
        allow_abbrev=False,
        description="Walk all keys of a database, and rewrite the values that a compress rule of the policy is about: "
        "as clients write them now or, with --back, plain. Each key is watched, and written only if nobody else has "
        "written to it. If it is stopped, run it again. Exit status: 0; 1 if a key could not be rewritten, values "
        "are still compressed after --back or nothing was confirmed; 2 if an option or the policy is not valid; 130 "
        "for Ctrl-C, 143 for SIGTERM.",
    )
    add_walk_options(parser)
    parser.add_argument("--back", action="store_true", help="make all compressed values plain")
    parser.add_argument("--rule", metavar="NAME", default="", help="only keys of this rule")
    parser.add_argument(
        "--pattern", type=pattern_of, default=b"*", metavar="GLOB", help="only these keys, as SCAN has it: * ? [a-z] \\"
    )
    parser.add_argument("--owner", metavar="APP", default="", help="only keys of this app of the policy")
    add_doing_options(parser)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Say what would be rewritten, have it confirmed, do it, and return the exit status."""
    loaded = load(parsed)
    if loaded is None:
        return INVALID
    policy, tls = loaded
    keys = CompressedKeys(policy, time.time())
    if problem := _problem(parsed, policy, keys) or doing_problem_of(parsed):
        print(f"keyrail: {problem}", file=sys.stderr)
        return INVALID
    judge, wanted = StoredJudge(policy, time.time()), _Wanted(parsed, keys)
    return _Transform(parsed, tls, judge, wanted, shown_by(policy.redact)).run()


def _problem(parsed: argparse.Namespace, policy: Policy, keys: CompressedKeys) -> str:
    """What is wrong with the options."""
    rules = [each.name for each in keys.rules]
    if not rules:
        return "--policy: expected a policy with a rule that compresses; this one has none"
    if parsed.rule and parsed.rule not in rules:
        return f"--rule {parsed.rule}: expected a rule that compresses, one of {', '.join(rules)}"
    if parsed.owner and parsed.owner not in {app.name for app in policy.apps}:
        return f"--owner {parsed.owner}: the policy has no such app"
    return ""


class _Wanted:
    """Which keys the options name, and what their values have to become."""

    def __init__(self, parsed: argparse.Namespace, keys: CompressedKeys) -> None:
        self._parsed = parsed
        self._keys = keys
        self._fits = KeyPattern(parsed.pattern).fits

    def concerns(self, database: int, name: bytes) -> bool:
        """Whether the key is of one of the rules."""
        return database == self._parsed.upstream.database and self._fits(name) and self._rule_of(name) is not None

    def form_of(self, name: bytes, judged: Judged) -> StoredForm | Left | None:
        """What the key's values have to become, or why they stay; None if the key is not meant."""
        rule = self._rule_of(name)
        if rule is None or self._parsed.owner not in ("", judged.app):
            return None
        if self._parsed.back:
            return Plain(rule.terms)
        return AsRule(rule.terms) if self._keys.compresses(rule, name, judged.app) else _MILD

    @property
    def compressing(self) -> list[str]:
        """The rules that compress what clients write meanwhile."""
        mine = (each for each in self._keys.rules if self._parsed.rule in ("", each.name))
        return [each.name for each in mine if each.terms.above < LARGEST_ABOVE]

    def _rule_of(self, name: bytes) -> CompressingRule | None:
        rule = self._keys.rule_of(name)
        return rule if rule is None or self._parsed.rule in ("", rule.name) else None


@dataclass(frozen=True, slots=True)
class _Transform:
    """One run, with the options that it was given."""

    parsed: argparse.Namespace
    tls: FollowedContext | None
    judge: StoredJudge
    wanted: _Wanted
    show: Callable[[bytes], str]

    def run(self) -> int:
        """Do what the options say; the exit status."""
        limit = self.parsed.limit
        if not self.parsed.yes:
            status, found = self._walk(dry=True, limit=limit)
            keys = found.whole.keys
            if status or self.parsed.dry_run:
                return status
            if not keys:
                return self._say_what_is_left(found) if self.parsed.back else status
            if not is_confirmed(keys, "rewrite them"):
                return FAILED
            limit = keys
        status, found = self._walk(dry=False, limit=limit)
        if not self.parsed.back or status not in (0, FAILED):
            return status
        if found.reached_limit:
            print("keyrail: still compressed: the values beyond the limit", file=sys.stderr)
            return FAILED
        again, scan, found = self._drive(dry=True, limit=None)
        return max(status, again or max(_failed(scan, found), self._say_what_is_left(found)))

    def _say_what_is_left(self, found: Rewritten) -> int:
        """Say whether values are compressed still, or again; the exit status."""
        still = found.whole.values + sum(count for why, count in found.left.items() if why.compressed)
        if not still:
            return 0
        print(f"keyrail: still compressed: {still:,} values", file=sys.stderr)
        for name in self.wanted.compressing:
            print(f"keyrail: {name} compresses what clients write: say above: 512MB there first", file=sys.stderr)
        return FAILED

    def _walk(self, *, dry: bool, limit: int | None) -> tuple[int, Rewritten]:
        # The result is printed.
        status, scan, found = self._drive(dry=dry, limit=limit)
        what = "would be rewritten" if dry else "rewritten"
        if status and not found.rows and not scan.finished:
            pass  # it has said why on stderr
        elif self.parsed.json:
            print(json.dumps({"what": what, **as_json(scan, found, self.show)}, indent=2))
        else:
            print(text(scan, found, what, self.show))
        return status or _failed(scan, found), found

    def _drive(self, *, dry: bool, limit: int | None) -> tuple[int, Scan, Rewritten]:
        rewrites, its = Rewrites(self.wanted, dry=dry, limit=limit), self.parsed
        options = Options(its.share, name="keyrail-transform")
        scanner = Scanner(its.upstream, self.tls, self.judge, self.show, options, WallClock(), rewrites)
        status = asyncio.run(drive(scanner))
        scan, found = scanner.result(str(its.policy)), rewrites.found
        if unreadable := sum(node.unreadable for node in scan.nodes):
            found.refusals[_UNREADABLE] += unreadable
        return status, scan, found


def _failed(scan: Scan, found: Rewritten) -> int:
    return FAILED if found.has_failed or scan.lacks_keys else 0
