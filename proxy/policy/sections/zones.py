"""``zones: {eu-1a: [10.0.1.0/24], eu-1b: [10.0.2.0/24, "fd00:2::/64"]}``."""

from proxy.policy.networks import Network
from proxy.policy.sections.networks import read_network
from proxy.policy.zones import ZONE_NAME, Zones
from proxy.policy_yaml.errors import shown
from proxy.policy_yaml.fields import read_list, read_mapping
from proxy.policy_yaml.yaml_source import Problems, Scalar, Value

_EXPECTED = "a name of letters, digits, '-', '_' and '.', at most 64"


def read_zones(value: Value, problems: Problems) -> Zones | None:
    """The networks of each zone."""
    mapping = read_mapping(value, problems)
    if mapping is None:
        return None
    if not mapping.entries:
        problems.unexpected(value, "a mapping such as {eu-1a: [10.0.1.0/24]}")
    taken: list[tuple[str, Network]] = []
    found: dict[str, tuple[Network, ...]] = {}
    for name, body in mapping.entries.items():
        if not ZONE_NAME.fullmatch(name):
            problems.add(mapping.keys[name], f"{mapping.path}.{name}", shown(name), _EXPECTED)
        networks = []
        for text in read_list(body, problems) or ():
            network = read_network(text, problems)
            if network is not None:
                _check_apart(name, network, text, taken, problems)
                networks.append(network)
        taken += ((name, network) for network in networks)
        found[name] = tuple(networks)
    return Zones(found)


def _check_apart(
    name: str, network: Network, text: Scalar, taken: list[tuple[str, Network]], problems: Problems
) -> None:
    for zone, other in taken:
        if zone != name and network.version == other.version and network.overlaps(other):
            problems.unexpected(text, f"a network apart from {other} of zone {zone}")
            return
