"""`keyrail scan`: what is stored in a Redis, judged by a policy."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from proxy.cli import growth_text
from proxy.cli.line import LineParser
from proxy.cli.scan_fail_on import are_kept, can_be_found, limits
from proxy.cli.scan_output import is_writable, show
from proxy.cli.scan_results import (
    LAST,
    ResultError,
    SavedParts,
    add_result_options,
    compare_files,
    growth_since,
    keep,
    read_file,
    write_html,
)
from proxy.cli.scan_text import text
from proxy.cli.walk import FAILED, INVALID, add_walk_options, drive, load, share_of
from proxy.policy.model import Policy
from proxy.policy.wording import shown_by
from proxy.rules.stored import Fault
from proxy.server.stored.json_form import as_json
from proxy.server.stored.judging import StoredJudge
from proxy.server.stored.model import Scan
from proxy.server.stored.scanner import Options, Scanner, WallClock


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    parser = verbs.add_parser(
        "scan",
        help="what is stored in a Redis, judged by a policy",
        allow_abbrev=False,
        description="Walk all keys of a Redis, of the primary that Sentinels name or of all nodes of a cluster, judge "
        "each by a policy, and say whose they are and what is wrong with them. It writes nothing, and takes a share of "
        "each server's time. Exit status: 0, 1 if --fail-on finds something or the scan cannot be completed, 2 if an "
        "option or the policy is not valid, 130 for Ctrl-C, 143 for SIGTERM.",
    )
    add_walk_options(parser, required=False)
    parser.add_argument("--replicas", action="store_true", help="walk a replica of each primary")
    parser.add_argument(
        "--touch", action="store_true", help="count members also before Redis 7.2, which changes LRU and LFU of the key"
    )
    parser.add_argument(
        "--sample",
        type=share_of,
        metavar="N%",
        help="look at so many of the keys, such as 1%%, and estimate the others",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--fail-on",
        metavar="FAULT>N[%][,…]",
        type=limits,
        default=(),
        help=f"exit with 1 if so many keys have a fault, such as no-ttl>1%%: {', '.join(Fault)}",
    )
    add_result_options(parser)
    parser.set_defaults(run=run, mistake=parser.error)


def run(parsed: argparse.Namespace) -> int:
    """Scan, print the result, and return the exit status; or compare files."""
    if len(parsed.diff) > 1:
        return compare_files(parsed.diff, as_json=parsed.json)
    if missing := [f"--{name}" for name in ("upstream", "policy") if getattr(parsed, name) is None]:
        parsed.mistake(f"the following arguments are required: {', '.join(missing)}")
    if parsed.resume and (parsed.state_dir is None or parsed.sample is not None):
        parsed.mistake("argument --resume: it needs --state-dir, and no --sample")
    if LAST in parsed.diff and parsed.state_dir is None:
        parsed.mistake(f"argument --diff: {LAST} needs --state-dir")
    try:
        old = read_file(Path(*parsed.diff)) if parsed.diff and LAST not in parsed.diff else None
    except ResultError as error:
        print(f"keyrail: {error}", file=sys.stderr)
        return INVALID
    loaded = load(parsed)
    if loaded is None:
        return INVALID
    policy, tls = loaded
    options = Options(parsed.share, parsed.replicas, parsed.touch, sample=parsed.sample)
    judge = StoredJudge(policy, time.time())
    judged = judge.faults()
    if not can_be_found(parsed.fail_on, judged):
        return INVALID
    if not is_writable(parsed.state_dir, make=True) or not is_writable(parsed.html and parsed.html.absolute().parent):
        return INVALID
    scanner = Scanner(parsed.upstream, tls, judge, shown_by(policy.redact), options, WallClock())
    saving = SavedParts(scanner, parsed, policy)
    saving.resume()
    status = asyncio.run(drive(scanner, saving.save))
    found = scanner.result(str(parsed.policy))
    saving.end(found)
    if not judged:
        found = replace(found, notes=[*found.notes, "no rule of this policy judges stored keys"])
    if not found.keys and status == FAILED:
        return status
    return status or FAILED if not _give(parsed, found, contacts_of(policy), old) else status


def _give(parsed: argparse.Namespace, found: Scan, contacts: Mapping[str, str], old: Scan | None) -> bool:
    # All that is asked for; whether it went well and --fail-on finds nothing.
    grown = growth_since(old, found, parsed.state_dir) if parsed.diff else None
    if parsed.json:
        growth = {} if grown is None else {"growth": growth_text.as_json(grown)}
        done = show(json.dumps(as_json(found) | growth, indent=2))
    else:
        done = show(text(found, contacts) + ("" if grown is None else f"\n\n{growth_text.text(grown)}"))
    done &= parsed.html is None or write_html(found, contacts, parsed.html)
    done &= parsed.state_dir is None or keep(found, parsed.state_dir)
    return are_kept(parsed.fail_on, found) and done


def contacts_of(policy: Policy) -> dict[str, str]:
    """Whom to ask about the keys of an app."""
    return {app.name: app.contact or policy.contact for app in policy.apps}
