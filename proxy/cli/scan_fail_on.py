"""`keyrail scan --fail-on`: the faults that so many keys must not have, for a pipeline."""

import argparse
import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from proxy.rules.stored import Fault
from proxy.server.stored.model import FaultRow, Scan
from proxy.wire.numbers import read_digits

_LIMIT = re.compile(r"([a-z-]+)(?:>([0-9]{1,12})|>([0-9]{1,3}(?:\.[0-9]{1,6})?)%)?")


@dataclass(frozen=True, slots=True)
class Limit:
    """A fault that more than so many ``keys``, or this ``share`` of all keys, must not have."""

    fault: Fault
    keys: int = 0
    share: float | None = None

    def is_broken(self, scan: Scan) -> bool:
        """Whether more keys surely have the fault; by a sample, at its lower bound."""
        return self.number(scan)[0] > self._most(scan)

    def is_open(self, scan: Scan) -> bool:
        """Whether nobody can tell by the sample: the limit is between the bounds."""
        low, high = self.number(scan)
        return low <= self._most(scan) < high

    def number(self, scan: Scan) -> tuple[int, int]:
        """How many keys surely have the fault, at least and at most."""
        sure = _row(self.fault, scan).sure
        if scan.sample is None:
            return sure, sure
        return scan.bounds("fault", self.fault, "sure") or scan.sample.none

    def _most(self, scan: Scan) -> float:
        return self.keys if self.share is None else self.share * scan.keys

    def __str__(self) -> str:
        return f"{self.fault}>{self.keys}" if self.share is None else f"{self.fault}>{100 * self.share:g}%"


def limits(given: str) -> tuple[Limit, ...]:
    """The value of the option. Raises ArgumentTypeError."""
    return tuple(_limit(each) for each in given.split(","))


def _limit(given: str) -> Limit:
    found = _LIMIT.fullmatch(given)
    if found is None or found[1] not in [*Fault] or float(found[3] or 0) > 100:
        raise argparse.ArgumentTypeError(
            f"expected a fault ({', '.join(Fault)}) and a limit, such as no-ttl>1% or bad-name>20, got {given!r}"
        )
    share = None if found[3] is None else float(found[3]) / 100
    return Limit(Fault(found[1]), read_digits(found[2] or "0") or 0, share)


def can_be_found(asked: Sequence[Limit], judged: Collection[Fault]) -> bool:
    """Whether rules can find all faults that are asked about, by those that they judge; if not, say so."""
    lacking = {each.fault: None for each in asked if each.fault not in judged}
    if lacking:
        _say(f"no rule of this policy can find {', '.join(lacking)}")
    return not lacking


def are_kept(asked: Sequence[Limit], scan: Scan) -> bool:
    """Whether the limits are kept; if they are not, or nobody can tell, say so, and how many keys may be over them."""
    for fault in dict.fromkeys(each.fault for each in asked):
        if unsure := _row(fault, scan).unsure:
            _say(f"{unsure:,} more keys may be {fault}: their members are not counted")
    if broken := [_between(each, scan) for each in asked if each.is_broken(scan)]:
        _say(", ".join(broken))
        return False
    if unsettled := [_between(each, scan) for each in asked if each.is_open(scan)]:
        _say(f"cannot tell by a sample: {', '.join(unsettled)}")
        return False
    unreadable = sum(node.unreadable for node in scan.nodes) if asked else 0
    if unreadable:
        _say(f"cannot tell: {unreadable:,} keys not readable")
    return not unreadable


def _between(limit: Limit, scan: Scan) -> str:
    low, high = limit.number(scan)
    return f"{limit}: {low:,} keys" if low == high else f"{limit}: {low:,} to {high:,} keys"


def _row(fault: Fault, scan: Scan) -> FaultRow:
    return scan.by_fault.get(fault, FaultRow())


def _say(text: str) -> None:
    print(f"keyrail: --fail-on: {text}", file=sys.stderr)
