"""The zones of a network: which one a server is in, by its address."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import TypeAlias

ZONE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,62}[A-Za-z0-9])?")
Network: TypeAlias = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class Zones:
    """Networks by the name of their zone; no two zones share an address."""

    networks: Mapping[str, tuple[Network, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.networks)

    def of(self, host: str) -> str:
        """The zone of an IP address; empty if it is in none, or is no IP address."""
        try:
            address = ip_address(host.partition("%")[0])
        except ValueError:
            return ""
        mapped = None if address.version == 4 else address.ipv4_mapped  # as a listener of IPv6 and IPv4 sees a peer
        found = (name for name, networks in self.networks.items() for each in networks if (mapped or address) in each)
        return next(found, "")


NO_ZONES = Zones()
