"""A client as figures and reports name it."""

from proxy.session.ports.client import ServedClient
from proxy.session.ports.client_identity import Names
from proxy.traffic.evidence_rows import Identity
from proxy.traffic.key_text import shown
from proxy.traffic.labels import ClientLabel
from proxy.traffic.shapes import shape

_LONGEST_NAME = 64
_MOST_KNOWN, _LONGEST_KNOWN = 4096, 256
_NO_USER_OF_ITS_OWN = "default"


def client_label(client: ServedClient) -> ClientLabel:
    """Its user, the name that it gave itself, its library with the version, and its address."""
    return label_of(client.user_name, client.shown_names, client.origin.address)


def label_of(user_name: str, names: Names, address: str) -> ClientLabel:
    """The same of a client of which this is known."""
    library = names.library.decode("utf-8", "replace")
    if names.version:
        library = f"{library} {names.version.decode('utf-8', 'replace')}"
    name = names.client.decode("utf-8", "replace")
    user = shown(user_name.encode("utf-8", "surrogateescape"))
    return (user[:_LONGEST_NAME], name[:_LONGEST_NAME], library[:_LONGEST_NAME], address)


class Identities:
    """Who clients are for evidence: found once for all that are alike, since each connection asks."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, Names, str], Identity] = {}

    def of(self, client: ServedClient) -> Identity:
        """The identity of a client."""
        app, user, names = client.effective_policy.compiled.app, client.user_name, client.shown_names
        host = client.origin.host if user == _NO_USER_OF_ITS_OWN and not names.client else ""
        known = self._known.get((app, user, names, host))
        if known is None:
            user_label, _, library, _ = label_of(user, names, host)
            known = Identity(app, user_label, shape(names.client)[:_LONGEST_NAME], library, host)
            if max(map(len, names)) <= _LONGEST_KNOWN:
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[app, user, names, host] = known
        return known
