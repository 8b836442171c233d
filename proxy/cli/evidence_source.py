"""Where commands take their evidence from: running Keyrails, added up, or a state folder, also a copied one."""

import argparse
import time
from pathlib import Path

from proxy.cli.admin_port import AdminPort, AdminPortError, add_options
from proxy.server.evidence.json_form import from_json
from proxy.server.evidence.model import Evidence, EvidenceError
from proxy.server.evidence.store import read_store
from proxy.server.option_readers import read_positive_seconds

_SECONDS = 60.0
_USUAL = 7 * 86_400


class SourceError(Exception):
    """The evidence cannot be read. ``status`` is the exit status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


def add_source_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--admin``, ``--token-file``, ``--state-dir`` and ``--since``."""
    add_options(parser, several=True)
    parser.add_argument("--state-dir", metavar="DIR", type=Path, help="read this state folder in place of --admin")
    parser.add_argument(
        "--since", metavar="TIME", type=_read_time, default=_USUAL, help="how far back, such as 12h or 30d (default 7d)"
    )


def _read_time(text: str) -> float:
    try:
        return read_positive_seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def evidence_of(options: argparse.Namespace) -> Evidence:
    """The evidence that the options name. Raises SourceError."""
    since = time.time() - options.since
    try:
        if options.state_dir is not None:
            return read_store(options.state_dir / "evidence.sqlite", since)
        found = Evidence()
        for url in options.admin.split(","):
            answer = AdminPort(url, options.token_file, _SECONDS).get("/evidence", since=since)
            found.add(from_json(answer))
        return found
    except AdminPortError as error:
        raise SourceError(str(error), error.status) from None
    except EvidenceError as error:
        raise SourceError(str(error), 1) from None
