"""A scan that has not come to its end, in the state folder, so that another process can go on with it.

One file has all of it, so that what was counted and which keys these were always fit together: a line of JSON (the scan
so far, and where the walk is), then the marks of the keys that were seen, then the sums of slots.

One server goes on at its cursor, if its process is still the same. Nodes of a cluster are walked from their beginning:
nobody can tell which slots moved while nobody looked. What was counted is shown again, but not asked about.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from proxy.policy_yaml.regular_file import read_regular
from proxy.server.stored.json_form import as_json, from_json
from proxy.server.stored.model import Scan
from proxy.server.stored.node_walk import Place
from proxy.server.stored.seen import SeenKeys
from proxy.server.stored.totals import Totals
from proxy.server.whole_file import replace_file

_MOST_BYTES = 1 << 30


class UnfinishedError(Exception):
    """There is nothing to go on with; the text says why."""


@dataclass(frozen=True, slots=True)
class Found:
    """What an earlier process has done. ``ids`` are those of the scan's nodes, in their order."""

    scan: Scan
    ids: Sequence[str]
    place: Place
    slots: bytes


class Unfinished:
    """The file of an upstream and what it is judged by: ``policy`` are all files of the policy, and ``asked`` has the
    options that change the result. Raises OSError if the policy cannot be read."""

    def __init__(self, state_dir: Path, upstream: str, policy: Iterable[Path], asked: Sequence[object]) -> None:
        self.file = state_dir / "scans" / f"unfinished-{sha256(upstream.encode()).hexdigest()[:8]}"
        digests = (sha256(read_regular(each)).hexdigest() for each in policy)
        self._asked = [upstream, *map(str, asked), *digests]

    def write(self, scan: Scan, ids: Sequence[str], place: Place, seen: SeenKeys, totals: Totals) -> None:
        """Raises OSError."""
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        pieces, slots = seen.pieces(), totals.slots()
        header = {
            "scan": as_json(scan),
            "ids": ids,
            "place": asdict(place),
            "expected_missed": seen.expected_missed,
            "pieces": [len(each) for each in pieces],
            "slots": len(slots),
            "asked": self._asked,
        }
        replace_file(self.file, [json.dumps(header).encode() + b"\n", *pieces, slots])

    def read(self, seen: SeenKeys) -> Found:
        """What there is; the keys that it has seen get into ``seen``. Raises UnfinishedError."""
        try:
            line, _, rest = read_regular(self.file, _MOST_BYTES).partition(b"\n")
            header: dict[str, Any] = json.loads(line)
            if header["asked"] != self._asked:
                raise UnfinishedError("the unfinished scan had another policy, or other options")
            *pieces, slots = _cut(rest, [*header["pieces"], header["slots"]])
            scan = from_json(header["scan"])
            nodes = dict(zip(map(str, header["ids"]), scan.nodes, strict=True))
            for node in nodes.values():
                node.databases = {int(database): keys for database, keys in node.databases.items()}
            found = Found(scan, [*nodes], Place(**header["place"]), slots)
            seen.take(pieces, float(header["expected_missed"]))
            return found
        except FileNotFoundError:
            raise UnfinishedError("there is no unfinished scan of it") from None
        except OSError as error:
            raise UnfinishedError(f"the unfinished scan cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            raise UnfinishedError(f"{self.file} is no unfinished scan of this version of Keyrail") from None

    def remove(self) -> None:
        """It has come to its end. Raises OSError."""
        self.file.unlink(missing_ok=True)


def _cut(whole: bytes, sizes: Sequence[int]) -> list[bytes]:
    # Pieces of these sizes, and nothing behind them. Raises ValueError.
    if sum(sizes) != len(whole):
        raise ValueError(f"{len(whole)} bytes, not {sum(sizes)}")
    return [whole[sum(sizes[:at]) :][:size] for at, size in enumerate(sizes)]
