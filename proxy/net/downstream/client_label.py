"""A client as figures and reports name it."""

from proxy.session.ports.client import ServedClient
from proxy.session.ports.client_identity import Names
from proxy.traffic.evidence import ClientLabel
from proxy.traffic.key_text import shown

_LONGEST_NAME = 64


def client_label(client: ServedClient) -> ClientLabel:
    """Its user, the name that it gave itself, its library with the version, and its address."""
    return label_of(client.user_name, client.names, client.origin.address)


def label_of(user_name: str, names: Names, address: str) -> ClientLabel:
    """The same of a client of which this is known."""
    library = names.library.decode("utf-8", "replace")
    if names.version:
        library = f"{library} {names.version.decode('utf-8', 'replace')}"
    name = names.client.decode("utf-8", "replace")
    user = shown(user_name.encode("utf-8", "surrogateescape"))
    return (user[:_LONGEST_NAME], name[:_LONGEST_NAME], library[:_LONGEST_NAME], address)
