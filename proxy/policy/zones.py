"""The zones of a network: which one a server is in, by its address."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from proxy.policy.networks import Network, lies_in

ZONE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,62}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Zones:
    """Networks by the name of their zone; no two zones share an address."""

    networks: Mapping[str, tuple[Network, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.networks)

    def of(self, host: str) -> str:
        """The zone of an IP address; empty if it is in none, or is no IP address."""
        return next((name for name, networks in self.networks.items() if lies_in(host, networks)), "")


NO_ZONES = Zones()
