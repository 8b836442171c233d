"""Looking closely at one route's commands: what sessions measure becomes looks, and these become figures.

Each second's figures are a digest, which the supervisor adds to those of the other workers.
"""

import logging
import time

from proxy.hotpath.ledger import Ledger
from proxy.hotpath.sampler import Sampler
from proxy.hotpath.slices import Slice
from proxy.net.client import ClientConnection
from proxy.net.expiries import Expiries
from proxy.net.upstream import UpstreamConnection
from proxy.net.who import who_is
from proxy.session.measuring import Measurement
from proxy.session.ports import TracePort
from proxy.session.seeker import Seeker
from proxy.traffic.digest import Digest
from proxy.traffic.latency import Latencies
from proxy.traffic.looks import Look
from proxy.traffic.shapes import shape

_log = logging.getLogger("keyrail.insight")

_MOST_WAITING = 10
"""Digests that wait for a supervisor which does not take them."""
_MOST_KEYS = 16
"""Of one command; the keys behind these are not looked at."""

_MOST_FOLLOWED = 4
"""Clients that are followed each second: their next few commands each cost half as much as a look."""

_TOGETHER = 16
"""Measurements that become figures together: code that has just run is three times as fast as code that has not."""


class Insight(TracePort):
    """One route's, in one worker: what the `sampler` chooses, and questions about the keys of a few of these."""

    # Not the loop's own time: uvloop's is whole milliseconds, and those of the turn's beginning.
    clock = staticmethod(time.monotonic)

    def __init__(self, sampler: Sampler, expiries: Expiries) -> None:
        self._latencies = Latencies()
        self._observed: list[tuple[float, Measurement]] = []
        self._sampler = sampler
        self._expiries = expiries
        self._followable = 0
        self._each = 1
        self._digest = Digest(time.time())
        self._commands = 0
        self._closed: list[Digest] = []

    def departs(self, ledger: Ledger, measurement: Measurement) -> None:
        """Have the upstream note when what was just sent leaves."""
        if isinstance(ledger, UpstreamConnection):
            ledger.leaving.append(measurement)
            ledger.watched = True

    def observe(self, measurement: Measurement) -> None:
        """Take what is known of a command."""
        self._observed.append((time.time(), measurement))
        if len(self._observed) >= _TOGETHER:
            self._digest_observed()

    def observe_large(self, seeker: Seeker, key: bytes, size: int) -> None:
        """Take that a reply is large; it is known of those that nobody looks at too."""
        if self._sampler.looks > 0 and isinstance(seeker, ClientConnection):
            policy = seeker.regime.policy
            owner = policy.policy.schema.owner_of(key)
            pattern = shape(key) if owner is None else owner.name
            self._digest.see_large(pattern, key, size, policy.app, schema=owner is not None)

    def _digest_observed(self) -> None:
        observed, self._observed = self._observed, []
        for at, measurement in observed:
            try:
                self._digest_one(at, measurement)
            except Exception:  # noqa: BLE001 - replies are on their way: no fault of figures may reach an upstream
                _log.exception("a command that was looked at is missing in the figures")

    def _digest_one(self, at: float, measurement: Measurement) -> None:
        client = measurement.seeker
        if not isinstance(client, ClientConnection):
            raise AssertionError("only clients' commands are measured")
        look, schema = _look(at, measurement, client)
        self._latencies.add(look)
        self._digest.see(look, schema)
        self._expiries.wonder(look, client.key, self._expires)

    def latencies(self) -> dict[str, dict[str, float]]:
        """How long commands took, since the start: numbers that workers' figures can be added up by."""
        self._digest_observed()
        return self._latencies.figures()

    def _expires(self, pattern: str, key: bytes, seconds: float) -> None:
        self._digest.see_expiry(pattern, key, time.time() + seconds)

    def follow(self, weight: int) -> int:
        """How many reads this one stands for if its client is followed; 0 if it is not: few are, each second."""
        self._followable += 1
        if self._followable % self._each > 0 or self._followable > _MOST_FOLLOWED * self._each:
            return 0
        return weight * self._each

    def found_run(self, pattern: str, weight: int) -> None:
        """So many reads of a pattern each began a run of single reads."""
        self._digest.see_run(pattern, weight)

    def another_second(self, commands: int, counts: Slice) -> None:
        """Close the second: so many `commands` there were since the start, and these counts of keys since the last."""
        self._digest_observed()
        self._sampler.another_second()
        self._expiries.another_second()
        self._each = max(1, -(-self._followable // _MOST_FOLLOWED))
        self._followable = 0
        now = time.time()
        digest, self._digest = self._digest, Digest(now)
        digest.seconds = now - digest.began
        digest.commands, self._commands = commands - self._commands, commands
        digest.slices = [counts]
        digest.close()
        self._closed = [*self._closed, digest][-_MOST_WAITING:]

    def digests(self) -> list[Digest]:
        """What has been closed since the last call."""
        closed, self._closed = self._closed, []
        return closed


def _look(at: float, measurement: Measurement, client: ClientConnection) -> tuple[Look, frozenset[str]]:
    # The look, and the names of those of its patterns that are entries of the schema.
    schema = client.regime.policy.policy.schema
    keys = measurement.command.known_keys[:_MOST_KEYS]
    owners = [schema.owner_of(key.name) for key in keys]
    patterns = (shape(key.name) if owner is None else owner.name for key, owner in zip(keys, owners, strict=True))
    sent = measurement.sent or measurement.arrived
    look = Look(
        at=at,
        weight=measurement.weight,
        command=measurement.command.name,
        keys=tuple(key.name for key in keys),
        writes=tuple(key.write for key in keys),
        patterns=tuple(patterns),
        app=client.regime.policy.app,
        who=who_is(client),
        bytes_in=measurement.bytes_in,
        bytes_out=measurement.bytes_out,
        first_line=measurement.first_line,
        in_proxy=sent - measurement.arrived,
        at_redis=max(0.0, measurement.answered - sent),
        refused=measurement.refused,
    )
    return look, frozenset(owner.name for owner in owners if owner is not None)
