"""Commands that no limit and no breaker keeps from a client."""

from proxy.commands.overlay import HANDSHAKE
from proxy.commands.spec import ConnectionState, Spec

_FREE = frozenset({"connection", "transaction"})
_FREE_STATES = frozenset({ConnectionState.UNSUBSCRIBE, ConnectionState.KEYRAIL})


def is_free(spec: Spec) -> bool:
    """Whether a client needs the command to introduce itself, to stay alive, or to leave a state that it is in.

    Keyrail's own commands are free as well: they are what explains a refusal.
    """
    return not _FREE.isdisjoint(spec.categories) or spec.state in _FREE_STATES or spec.name in HANDSHAKE
