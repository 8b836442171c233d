"""A client as figures and reports name it."""

from proxy.session.dispatcher import Dispatcher
from proxy.traffic.evidence import ClientLabel
from proxy.traffic.names import shown

_LONGEST_NAME = 64


def client_label(client: Dispatcher) -> ClientLabel:
    """Its user, the name that it gave itself, its library with the version, and its address."""
    library = client.library.decode("utf-8", "replace")
    if client.library_version:
        library = f"{library} {client.library_version.decode('utf-8', 'replace')}"
    name = client.name.decode("utf-8", "replace")
    user = shown(client.key.user_name.encode("utf-8", "surrogateescape"))
    return (user[:_LONGEST_NAME], name[:_LONGEST_NAME], library[:_LONGEST_NAME], client.address)
