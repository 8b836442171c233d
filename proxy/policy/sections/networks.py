"""``10.0.1.0/24``, ``fd00:1::/64``, ``10.0.9.7``."""

from ipaddress import ip_network

from proxy.policy.networks import Network
from proxy.policy_yaml.json_schema_recorder import note
from proxy.policy_yaml.yaml_source import Problems, Scalar, Value


def read_network(value: Value, problems: Problems) -> Network | None:
    """A network, or one address. A network of IPv4 addresses in IPv6 is an error, since peers are seen as IPv4."""
    note(value, type="string")
    try:
        network = ip_network(value.text) if isinstance(value, Scalar) and "%" not in value.text else None
    except ValueError:
        network = None
    if network is None:
        problems.unexpected(value, "a network such as 10.0.1.0/24 or fd00:1::/64, without bits set behind its prefix")
    elif network.version == 6 and network.network_address.ipv4_mapped is not None:
        problems.unexpected(value, f"the network as IPv4, such as {network.network_address.ipv4_mapped}/32")
        return None
    return network
