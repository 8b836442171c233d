"""Where the result of a scan goes besides the terminal: an HTML file, the state folder, and a comparison."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from proxy.cli import growth_text
from proxy.policy.model import Policy
from proxy.server.stored.growth import Growth, growth
from proxy.server.stored.kept import KeptScans, read_scan
from proxy.server.stored.model import Scan
from proxy.server.stored.scanner import Scanner
from proxy.server.stored.unfinished import Unfinished, UnfinishedError

LAST = "LAST"


class ResultError(Exception):
    """A scan to compare with cannot be read; the text says which one and why."""


def add_result_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--html``, ``--state-dir``, ``--resume`` and ``--diff``."""
    parser.add_argument(
        "--html", metavar="FILE", type=Path, help="also write one HTML file, which opens without a network"
    )
    parser.add_argument("--state-dir", metavar="DIR", type=Path, help="keep the result in this folder")
    parser.add_argument(
        "--resume", action="store_true", help="go on with the scan in --state-dir that did not come to its end"
    )
    parser.add_argument(
        "--diff",
        metavar="LAST|FILE",
        nargs="+",
        default=(),
        help="what grew since the last scan in --state-dir, or since one in a file; with several files: between these, "
        "without a scan",
    )


def write_html(found: Scan, contacts: Mapping[str, str], file: Path) -> bool:
    """Write the HTML file; whether that went well."""
    from proxy.cli.html_file import write  # noqa: PLC0415  slow to import, and other forms don't need it
    from proxy.cli.scan_html import html  # noqa: PLC0415  the same

    return write(html(found, contacts), file)


def keep(found: Scan, state_dir: Path) -> bool:
    """Keep the result in the state folder; whether that went well. A part is not kept."""
    kept = KeptScans(state_dir)
    if not found.finished:
        print(f"keyrail: {state_dir}: nothing is kept of a part", file=sys.stderr)
        return False
    try:
        kept.write(found)
    except OSError as error:
        print(f"keyrail: cannot keep the result as {kept.file_of(found)}: {error.strerror}", file=sys.stderr)
        return False
    return True


class SavedParts:
    """Keeps the part of a scan that is done in the state folder, if there is one, until the scan is finished."""

    def __init__(self, scanner: Scanner, parsed: argparse.Namespace, policy: Policy) -> None:
        self._scanner = scanner
        self._parsed = parsed
        self._unfinished: Unfinished | None = None
        if parsed.state_dir is not None and parsed.sample is None:
            asked = [parsed.replicas, parsed.touch]
            self._unfinished = Unfinished(parsed.state_dir, str(parsed.upstream), map(Path, policy.files), asked)

    def resume(self) -> None:
        """Go on with an earlier scan if that is asked for; say so if there is none."""
        if self._parsed.resume and self._unfinished is not None:
            try:
                self._scanner.resume(self._unfinished)
            except UnfinishedError as error:
                print(f"keyrail: --resume: {error}: the scan begins anew", file=sys.stderr)

    def save(self) -> None:
        """Keep what is done now."""
        if self._unfinished is not None:
            try:
                self._scanner.keep(self._unfinished, str(self._parsed.policy))
            except OSError as error:
                print(f"keyrail: cannot write {self._unfinished.file}: {error.strerror}", file=sys.stderr)

    def end(self, found: Scan) -> None:
        """Keep the part that is done, or nothing if that is all."""
        if self._unfinished is None:
            return
        if found.finished:
            with suppress(OSError):  # it is replaced by the next one
                self._unfinished.remove()
        elif found.keys:
            self.save()
            print("keyrail: --resume goes on with this part", file=sys.stderr)


def growth_since(old: Scan | None, found: Scan, state_dir: Path | None) -> Growth | None:
    """What grew since ``old``, or since the last scan of the state folder; None, and it says so, if there is none."""
    files, kept = [], []
    try:
        files = [] if state_dir is None else KeptScans(state_dir).of(found.upstream)
    except OSError as error:
        print(f"keyrail: cannot read {state_dir}: {error.strerror}", file=sys.stderr)
    for each in files:
        with suppress(OSError, ValueError):  # of another version, or somebody has removed it
            kept.append(read_scan(each))
    if old is None and not kept:
        print(f"keyrail: --diff: {state_dir} has no scan of {found.upstream} yet", file=sys.stderr)
        return None
    return growth(old or kept[0], found, kept)


def read_file(file: Path) -> Scan:
    """A scan to compare with. Raises ResultError."""
    try:
        return read_scan(file)
    except OSError as error:
        raise ResultError(f"cannot read {file}: {error.strerror}") from None
    except ValueError as error:
        raise ResultError(str(error)) from None


def compare_files(files: Sequence[str], *, as_json: bool) -> int:
    """Print what grew between scans in files; the exit status."""
    try:
        scans = sorted((read_file(Path(each)) for each in files), key=lambda each: each.started)
    except ResultError as error:
        print(f"keyrail: {error}", file=sys.stderr)
        return 2
    found = growth(scans[0], scans[-1], scans[1:-1])
    print(json.dumps(growth_text.as_json(found), indent=2) if as_json else growth_text.text(found))
    return 0
