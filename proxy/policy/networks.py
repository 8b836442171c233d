"""Networks of a policy, and whether an IP address is in one."""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

Network: TypeAlias = IPv4Network | IPv6Network


@lru_cache(4096)
def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """The IP address of a peer; None if it has none, as on a unix socket."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = None if address.version == 4 else address.ipv4_mapped  # as a listener of IPv6 and IPv4 sees a peer
    return mapped or address


def lies_in(host: str, networks: Iterable[Network]) -> bool:
    """Whether the address is in one of the networks."""
    address = address_of(host)
    return address is not None and any(address in each for each in networks)


def contains(general: Network, special: Network) -> bool:
    """Whether the general network has all addresses of the special one."""
    if isinstance(general, IPv4Network):
        return isinstance(special, IPv4Network) and special.subnet_of(general)
    return isinstance(special, IPv6Network) and special.subnet_of(general)
