"""A client as figures and reports name it."""

from proxy.session.ports import ReportedClient
from proxy.traffic.evidence import ClientLabel
from proxy.traffic.key_text import shown

_LONGEST_NAME = 64


def client_label(client: ReportedClient) -> ClientLabel:
    """Its user, the name that it gave itself, its library with the version, and its address."""
    library = client.names.library.decode("utf-8", "replace")
    if client.names.version:
        library = f"{library} {client.names.version.decode('utf-8', 'replace')}"
    name = client.names.client.decode("utf-8", "replace")
    user = shown(client.user_name.encode("utf-8", "surrogateescape"))
    return (user[:_LONGEST_NAME], name[:_LONGEST_NAME], library[:_LONGEST_NAME], client.origin.address)
