"""`keyrail tenants migrate`: give the stored keys of an app the prefix of its tenant, or take it off again."""

import argparse
import os
import sys
import time

from proxy.cli.changing import Changing, Words, add_change_options, problem_of
from proxy.cli.line import LineParser
from proxy.cli.purge import pattern_of
from proxy.cli.walk import FAILED, INVALID, add_walk_options, load
from proxy.policy.model import Policy
from proxy.policy.tenants import StoredNames
from proxy.policy.wording import shown_by
from proxy.server.stored.changes.model import Change
from proxy.server.stored.changes.rename import Rename, Renaming
from proxy.server.stored.judging import StoredJudge

_RENAMING = Words(
    "tenants-migrate",
    "would be renamed",
    "renamed",
    "rename them",
    "A key gets its new name if in the same step it still has its type, and no other key has that name. Its value and "
    "its TTL stay.",
)


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    """Add `tenants` and its subcommands."""
    parser = verbs.add_parser("tenants", help="move stored keys behind the prefix of a tenant", allow_abbrev=False)
    doings = parser.add_subparsers(dest="doing", metavar="DOING", required=True, parser_class=LineParser)
    migrate = doings.add_parser(
        "migrate",
        help="rename the keys of an app",
        allow_abbrev=False,
        description="Walk all keys of a database, and rename those that begin with --from, so that they begin with "
        "--to. One of both is the prefix of the app's tenant. Nobody may use the keys meanwhile. If it is stopped, run "
        "it again with --again; --from and --to exchanged take it back. Exit status: 0; 1 if a key could not be "
        "renamed, somebody wrote meanwhile or nothing was confirmed; 2 if an option or the policy is not valid; 130 "
        "for Ctrl-C, 143 for SIGTERM.",
    )
    add_walk_options(migrate)
    migrate.add_argument("--app", required=True, metavar="APP", help="an app of the policy's tenants")
    migrate.add_argument("--from", dest="old", type=os.fsencode, required=True, metavar="TEXT", help="such as ''")
    migrate.add_argument("--to", dest="new", type=os.fsencode, required=True, metavar="TEXT", help="such as acme:")
    migrate.add_argument(
        "--pattern", type=pattern_of, default=b"*", metavar="GLOB", help="only keys of which the rest matches"
    )
    migrate.add_argument("--again", action="store_true", help="an earlier run has renamed a part")
    add_change_options(migrate)
    migrate.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Say what would be renamed, have it confirmed, do it, look whether all is done, and return the exit status."""
    loaded = load(parsed)
    if loaded is None:
        return INVALID
    policy, tls = loaded
    names = StoredNames(policy.tenants)
    if problem := _problem(parsed, policy, names) or problem_of(parsed):
        print(f"keyrail: {problem}", file=sys.stderr)
        return INVALID
    judge = StoredJudge(policy, time.time())
    changing = Changing(parsed, tls, judge, shown_by(policy.redact), _RENAMING)
    renaming = Renaming(parsed.old, parsed.new, parsed.pattern, parsed.upstream.database)

    def new() -> Change:
        return Rename(renaming, names)

    if names.own(parsed.new) is not None and not parsed.again and (status := _there_already(parsed, changing, names)):
        return status
    asked = {"app": parsed.app, "from": os.fsdecode(parsed.old), "to": os.fsdecode(parsed.new)}
    status = changing.run(new, asked)
    if status or parsed.dry_run or parsed.limit is not None:
        return status
    status, still = changing.count(new())
    if still:
        print(f"keyrail: still there: {still:,} keys. Somebody uses them: stop that, and add --again", file=sys.stderr)
    return status or (FAILED if still else 0)


def _problem(parsed: argparse.Namespace, policy: Policy, names: StoredNames) -> str:
    """What is wrong with the options."""
    if parsed.app not in policy.tenants.apps:
        return (
            f"--app {parsed.app}: expected a tenant of the policy: {', '.join(sorted(policy.tenants.apps)) or 'none'}"
        )
    found = [own for text in (parsed.old, parsed.new) if (own := names.own(text)) is not None]
    if len(found) == 1 and not found[0].name and found[0].app in (parsed.app, ""):
        return ""
    return f"--from and --to: expected the prefix of {parsed.app} in one of them, and no tenant's in the other"


def _there_already(parsed: argparse.Namespace, changing: Changing, names: StoredNames) -> int:
    """The exit status if keys begin as the tenant's already, which is told."""
    nobodys = b" "  # how no prefix begins
    status, there = changing.count(Rename(Renaming(parsed.new, nobodys, database=parsed.upstream.database), names))
    if status or not there:
        return status
    begin = f"keys that begin with {os.fsdecode(parsed.new)} already: {there:,}"
    if parsed.dry_run:
        print(f"keyrail: {begin}. If no earlier run has renamed them, {parsed.app} would look for them elsewhere")
        return 0
    print(
        f"keyrail: {begin}. Nothing was done. Add --again if an earlier run has renamed them; else their names have to "
        f"change first: {parsed.app} would look for them elsewhere",
        file=sys.stderr,
    )
    return FAILED
