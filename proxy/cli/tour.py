"""The text of `keyrail serve --embedded`: where to connect, and four commands that show the effect of a policy.

The commands and answers are those of `policies/tour.yaml`; a test runs them and compares.
"""

from proxy.net.config.address import ListenAddress
from proxy.net.config.settings import Embedded

STEPS = (
    ("KEYS '*'", "(error) DENIED keyrail/no-keyspace-walks: …", "refused, with the reason and what to do instead"),
    ("SET john_email x", "(error) DENIED keyrail/key-names: …", "refused: the key breaks the naming rule"),
    ("SET user:1:name ada", "OK", "and `TTL user:1:name` says about 300: Keyrail added a TTL"),
    ("DEL user:1:name", "(integer) 1", "and `INFO commandstats` says that Redis ran UNLINK"),
)
OF_THE_NODE = "KEYRAIL NODE n3 INFO commandstats"
"""Of a cluster, INFO is of the first node, and the key of these commands is on the third."""


def client_command(address: ListenAddress) -> str:
    """Return the redis-cli command line that connects to a listener."""
    if address.path is not None:
        return f"redis-cli -s {address.path}"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address.host, address.host)  # noqa: S104  compared, not bound
    tls = " --tls --insecure" if address.tls is not None else ""
    return f"redis-cli -h {host} -p {address.port}{tls}"


_ENGINES = {
    Embedded.SINGLE: "A private Valkey",
    Embedded.CLUSTER: "A private Valkey cluster, three primaries with a replica each,",
}


def tour_text(address: ListenAddress, policy: str, embedded: Embedded = Embedded.SINGLE) -> str:
    """Return the whole text for a listener in front of the embedded engine."""
    client = client_command(address)
    lines = [
        f"{_ENGINES[embedded]} is behind {address}, under the policy {policy!r}. Connect with:",
        "",
        f"  {client}",
        "",
    ]
    if policy == "tour":
        wide = max(len(command) for command, _, _ in STEPS)
        lines += ["Four commands worth trying, and what they show:", ""]
        for command, answer, told in STEPS:
            why = told.replace("INFO commandstats", OF_THE_NODE) if embedded is Embedded.CLUSTER else told
            lines += [f"  {client} {command:<{wide}}   {answer}", f"  {'':<{len(client) + wide}}    {why}"]
        lines += [""]
    return "\n".join(lines)
