"""`keyrail scan`: what is stored in a Redis, judged by a policy."""

import argparse
import asyncio
import json
import re
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from proxy.cli import growth_text
from proxy.cli.line import LineParser, policy_file
from proxy.cli.scan_results import (
    LAST,
    ResultError,
    add_result_options,
    compare_files,
    growth_since,
    keep,
    read_file,
    write_html,
)
from proxy.cli.scan_text import progress_line, text
from proxy.net.config.address import UpstreamAddress, parse_upstream
from proxy.net.connection.tls import TlsError, upstream_context
from proxy.policy.load import load_policy
from proxy.policy.model import Policy
from proxy.policy.wording import shown_by
from proxy.policy_yaml.errors import PolicyError
from proxy.rules.stored import Fault
from proxy.server.notices import notice
from proxy.server.stored.json_form import as_json
from proxy.server.stored.judging import StoredJudge
from proxy.server.stored.model import Scan
from proxy.server.stored.scanner import Options, ScanError, Scanner, WallClock
from proxy.wire.numbers import read_digits

_FAILED, _INVALID, _INTERRUPTED = 1, 2, 130
_LIMIT = re.compile(r"([a-z-]+)(?:>([0-9]{1,12})|>([0-9]{1,3}(?:\.[0-9]{1,6})?)%)?")
_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?)%")
_LIVE_SECONDS, _LOG_SECONDS = 0.5, 10.0


@dataclass(frozen=True, slots=True)
class Limit:
    """A fault that more than so many ``keys``, or this ``share`` of all keys, must not have."""

    fault: Fault
    keys: int = 0
    share: float | None = None

    def is_broken(self, scan: Scan) -> bool:
        """Whether more keys surely have the fault."""
        found = scan.keys_with(self.fault)
        return found > (self.keys if self.share is None else self.share * scan.keys)

    def __str__(self) -> str:
        return f"{self.fault}>{self.keys}" if self.share is None else f"{self.fault}>{100 * self.share:g}%"


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    parser = verbs.add_parser(
        "scan",
        help="what is stored in a Redis, judged by a policy",
        allow_abbrev=False,
        description="Walk all keys of a Redis, of the primary that Sentinels name or of all nodes of a cluster, judge "
        "each by a policy, and say whose they are and what is wrong with them. It writes nothing, and takes a share of "
        "each server's time. Exit status: 0, 1 if --fail-on finds something or the scan cannot be completed, 2 if an "
        "option or the policy is not valid, 130 for Ctrl-C.",
    )
    parser.add_argument("--upstream", type=_upstream, metavar="URL", help="as for serve")
    parser.add_argument("--policy", type=policy_file, metavar="FILE", help="a YAML file, or a packaged one")
    parser.add_argument(
        "--share", type=_share, default=0.05, metavar="N%", help="of each server's time (default 5%%); 100%%: all of it"
    )
    parser.add_argument("--replicas", action="store_true", help="walk a replica of each primary")
    parser.add_argument(
        "--touch", action="store_true", help="count members also before Redis 7.2, which changes LRU and LFU of the key"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--fail-on",
        metavar="FAULT>N[%][,…]",
        type=_limits,
        default=(),
        help=f"exit with 1 if so many keys have a fault, such as no-ttl>1%%: {', '.join(Fault)}",
    )
    add_result_options(parser)
    parser.set_defaults(run=run, mistake=parser.error)


def _upstream(given: str) -> UpstreamAddress:
    try:
        return parse_upstream(given)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _share(given: str) -> float:
    found = _SHARE.fullmatch(given)
    share = 0.0 if found is None else float(found[1]) / 100
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"expected a share above 0% and up to 100%, such as 5%, got {given!r}")
    return share


def _limits(given: str) -> tuple[Limit, ...]:
    return tuple(_limit(each) for each in given.split(","))


def _limit(given: str) -> Limit:
    found = _LIMIT.fullmatch(given)
    if found is None or found[1] not in [*Fault] or float(found[3] or 0) > 100:
        raise argparse.ArgumentTypeError(
            f"expected a fault ({', '.join(Fault)}) and a limit, such as no-ttl>1% or bad-name>20, got {given!r}"
        )
    share = None if found[3] is None else float(found[3]) / 100
    return Limit(Fault(found[1]), read_digits(found[2] or "0") or 0, share)


def run(parsed: argparse.Namespace) -> int:
    """Scan, print the result, and return the exit status; or compare files."""
    if len(parsed.diff) > 1:
        return compare_files(parsed.diff, as_json=parsed.json)
    if missing := [f"--{name}" for name in ("upstream", "policy") if getattr(parsed, name) is None]:
        parsed.mistake(f"the following arguments are required: {', '.join(missing)}")
    if LAST in parsed.diff and parsed.state_dir is None:
        parsed.mistake(f"argument --diff: {LAST} needs --state-dir")
    address: UpstreamAddress = parsed.upstream
    try:
        old = read_file(Path(*parsed.diff)) if parsed.diff and LAST not in parsed.diff else None
        policy = load_policy(parsed.policy)
        tls = None if address.tls is None else upstream_context(address.tls, notice)
    except PolicyError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
        return _INVALID
    except (TlsError, ResultError) as error:
        print(f"keyrail: {address}: {error}" if isinstance(error, TlsError) else f"keyrail: {error}", file=sys.stderr)
        return _INVALID
    options = Options(parsed.share, parsed.replicas, parsed.touch)
    judge = StoredJudge(policy, time.time())
    scanner = Scanner(address, tls, judge, shown_by(policy.redact), options, WallClock())
    status = asyncio.run(_scan(scanner))
    found = scanner.result(str(parsed.policy))
    if not found.keys and status:
        return status
    return status or _FAILED if not _give(parsed, found, contacts_of(policy), old) else status


def _give(parsed: argparse.Namespace, found: Scan, contacts: Mapping[str, str], old: Scan | None) -> bool:
    # All that is asked for; whether it went well and --fail-on finds nothing.
    grown = growth_since(old, found, parsed.state_dir) if parsed.diff else None
    if parsed.json:
        print(json.dumps(as_json(found) | ({} if grown is None else {"growth": growth_text.as_json(grown)}), indent=2))
    else:
        print(text(found, contacts) + ("" if grown is None else f"\n\n{growth_text.text(grown)}"))
    done = parsed.html is None or write_html(found, contacts, parsed.html)
    done &= parsed.state_dir is None or keep(found, parsed.state_dir)
    broken = [str(limit) for limit in parsed.fail_on if limit.is_broken(found)]
    if broken:
        print(f"keyrail: --fail-on: {', '.join(broken)}", file=sys.stderr)
    return done and not broken


def contacts_of(policy: Policy) -> dict[str, str]:
    """Whom to ask about the keys of an app."""
    return {app.name: app.contact or policy.contact for app in policy.apps}


async def _scan(scanner: Scanner) -> int:
    """Run it until its end or Ctrl-C; the exit status."""
    loop = asyncio.get_running_loop()
    scanning = loop.create_task(scanner.run())
    telling = loop.create_task(_tell(scanner))
    loop.add_signal_handler(signal.SIGINT, scanning.cancel)
    try:
        await scanning
        return 0
    except asyncio.CancelledError:
        print("keyrail: interrupted: this is the part that is done", file=sys.stderr)
        return _INTERRUPTED
    except ScanError as error:
        print(f"keyrail: {error}", file=sys.stderr)
        return _FAILED
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        telling.cancel()
        await asyncio.wait([telling])


async def _tell(scanner: Scanner) -> None:
    """Where it is: one line that is rewritten on a terminal, lines in a log."""
    live, began, line = sys.stderr.isatty(), time.monotonic(), ""
    try:
        while True:
            await asyncio.sleep(_LIVE_SECONDS if live else _LOG_SECONDS)
            line = progress_line(scanner.progress(), time.monotonic() - began)
            print(f"\r\x1b[K{line}" if live else line, end="" if live else "\n", file=sys.stderr, flush=True)
    finally:
        if live and line:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
