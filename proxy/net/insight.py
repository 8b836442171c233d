"""Looking closely at one route's commands: what sessions measure becomes looks, and these become figures."""

import asyncio
import random
import time

from proxy.hotpath.ledger import Ledger
from proxy.hotpath.sampler import Sampler
from proxy.net.client import ClientConnection
from proxy.net.upstream import UpstreamConnection
from proxy.net.who import who_is
from proxy.session.measuring import Measurement
from proxy.traffic.latency import Latencies
from proxy.traffic.looks import Look
from proxy.traffic.shapes import shape

_MOST_KEYS = 16
"""Of one command; the keys behind these are not looked at."""


class Insight:
    """One route's, in one worker: so many `looks` per second."""

    def __init__(self, loop: asyncio.AbstractEventLoop, looks: int) -> None:
        self.sampler = Sampler(looks, random.getrandbits(64))
        self.latencies = Latencies()
        self.clock = loop.time

    def departs(self, ledger: Ledger, measurement: Measurement) -> None:
        """Have the upstream note when what was just sent leaves."""
        if isinstance(ledger, UpstreamConnection):
            ledger.leaving.append(measurement)

    def observe(self, measurement: Measurement) -> None:
        """Take what is known of a command."""
        self.latencies.add(self._look(measurement))

    def another_second(self) -> None:
        """The sampler may look at more."""
        self.sampler.another_second()

    def _look(self, measurement: Measurement) -> Look:
        client = measurement.seeker
        if not isinstance(client, ClientConnection):
            raise AssertionError("only clients' commands are measured")
        schema = client.regime.policy.policy.schema
        keys = measurement.command.keys[:_MOST_KEYS]
        owners = [schema.owner_of(key.name) for key in keys]
        patterns = (shape(key.name) if owner is None else owner.name for key, owner in zip(keys, owners, strict=True))
        sent = measurement.sent or measurement.arrived
        return Look(
            at=time.time(),
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
