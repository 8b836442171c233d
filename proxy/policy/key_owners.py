"""Whose a key is.

The owner of a key is the app of its schema entry. Keys of no entry, and those of entries without an app, belong to the
app with the longest of the ``names: prefixes`` that the key begins with. All other keys are nobody's.
"""

from proxy.policy.model import Policy
from proxy.policy.precedence import audience
from proxy.schema.entries import Owner


class KeyOwners:
    """The owners of keys, by one policy."""

    def __init__(self, policy: Policy) -> None:
        self._schema = policy.schema
        self._app_of_prefix = _app_of_prefix(policy)
        self._lengths = sorted({len(prefix) for prefix in self._app_of_prefix}, reverse=True)

    def find(self, key: bytes) -> tuple[Owner, str]:
        """The entry of the schema that owns a key, and the app; "" if it is nobody's."""
        entry = self._schema.owner_of(key)
        if entry is not None and entry.app:
            return entry, entry.app
        found = (self._app_of_prefix.get(key[:length]) for length in self._lengths)
        return entry, next((app for app in found if app is not None), "")

    @property
    def has_apps(self) -> bool:
        """Whether an app owns keys."""
        return bool(self._app_of_prefix) or any(entry.app for entry in self._schema.entries)

    def app_of(self, key: bytes) -> str:
        """The app that owns a key; "" if it is nobody's."""
        return self.find(key)[1]


def _app_of_prefix(policy: Policy) -> dict[bytes, str]:
    """The apps by the prefixes that rules in force give them."""
    found: dict[bytes, str] = {}
    for rule in policy.rules:
        concerned = audience(policy, rule) if rule.settings.prefixes_of_apps else ()
        for app, prefixes in rule.settings.prefixes_of_apps:
            for prefix in prefixes if app in concerned else ():
                found.setdefault(prefix.encode(), app)
    return found
