"""What the verbs share that walk all keys of an upstream: options, progress and the end."""

import argparse
import asyncio
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable

from proxy.cli.line import policy_file
from proxy.cli.scan_text import progress_bar, progress_line
from proxy.net.config.address import UpstreamAddress, parse_upstream
from proxy.net.connection.tls import FollowedContext, TlsError, upstream_context
from proxy.policy.load import load_policy
from proxy.policy.model import Policy
from proxy.policy_yaml.errors import PolicyError
from proxy.server.notices import notice
from proxy.server.stored.changes.journal import JournalError
from proxy.server.stored.scanner import ScanError, Scanner

FAILED, INVALID = 1, 2
_STOPPED = 128
_STOPPING = (signal.SIGINT, signal.SIGTERM)
_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?)%")
_LIVE_SECONDS, _LOG_SECONDS = 0.5, 10.0
_SAVE_SECONDS = 30.0
_SAVE_REST = 50
"""So many times as long as saving takes, nothing is saved."""


def add_walk_options(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Where to walk, by which policy, and how fast."""
    parser.add_argument("--upstream", type=_upstream, required=required, metavar="URL", help="as for serve")
    parser.add_argument(
        "--policy", type=policy_file, required=required, metavar="FILE", help="a YAML file, or a packaged one"
    )
    parser.add_argument(
        "--share",
        type=share_of,
        default=0.05,
        metavar="N%",
        help="of each server's time (default 5%%); 100%%: all of it",
    )


def _upstream(given: str) -> UpstreamAddress:
    try:
        return parse_upstream(given)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def share_of(given: str) -> float:
    """A part of the whole. Raises ArgumentTypeError."""
    found = _SHARE.fullmatch(given)
    share = 0.0 if found is None else float(found[1]) / 100
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"expected a share above 0% and up to 100%, such as 5%, got {given!r}")
    return share


def load(parsed: argparse.Namespace) -> tuple[Policy, FollowedContext | None] | None:
    """The policy and the TLS that the options name; None if one of them is not valid, which is told."""
    address: UpstreamAddress = parsed.upstream
    try:
        return load_policy(parsed.policy), None if address.tls is None else upstream_context(address.tls, notice)
    except PolicyError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
    except TlsError as error:
        print(f"keyrail: {address}: {error}", file=sys.stderr)
    return None


async def drive(scanner: Scanner, save: Callable[[], None] = lambda: None) -> int:
    """Run it until its end, Ctrl-C or SIGTERM; the exit status. Now and then, ``save`` what is done."""
    loop = asyncio.get_running_loop()
    scanning = loop.create_task(scanner.run())
    beside = [loop.create_task(_tell(scanner)), loop.create_task(_save(save))]
    stopped: list[signal.Signals] = []

    def stop(by: signal.Signals) -> None:
        stopped.append(by)
        scanning.cancel()

    for each in _STOPPING:
        loop.add_signal_handler(each, stop, each)
    try:
        await scanning
        return 0
    except asyncio.CancelledError:
        print("keyrail: interrupted: this is the part that is done", file=sys.stderr)
        return _STOPPED + stopped[0]
    except (ScanError, JournalError) as error:
        print(f"keyrail: {error}", file=sys.stderr)
        return FAILED
    finally:
        for each in _STOPPING:
            loop.remove_signal_handler(each)
        for task in beside:
            task.cancel()
        await asyncio.wait(beside)


async def _save(save: Callable[[], None]) -> None:
    took = 0.0
    while True:
        await asyncio.sleep(max(_SAVE_SECONDS, _SAVE_REST * took))
        began = time.monotonic()
        save()
        took = time.monotonic() - began


async def _tell(scanner: Scanner) -> None:
    """Where it is: a bar that is rewritten on a terminal, lines in a log."""
    live, began, line = sys.stderr.isatty(), time.monotonic(), ""
    try:
        while True:
            await asyncio.sleep(_LIVE_SECONDS if live else _LOG_SECONDS)
            progress, seconds = scanner.progress(), time.monotonic() - began
            if live:
                line = progress_bar(progress, seconds, shutil.get_terminal_size().columns)
                print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
            else:
                print(progress_line(progress, seconds), file=sys.stderr, flush=True)
    finally:
        if live and line:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
