"""Commands that no limit and no breaker refuses."""

from proxy.commands.overlay import HANDSHAKE
from proxy.commands.spec import ConnectionState, Spec

_FREE = frozenset({"connection", "transaction"})
_FREE_STATES = frozenset({ConnectionState.UNSUBSCRIBE, ConnectionState.KEYRAIL})


def is_free(spec: Spec) -> bool:
    """Whether a client needs the command to introduce itself, to stay connected, or to leave its state.

    Keyrail's own commands are free, too: they explain refusals.
    """
    return not _FREE.isdisjoint(spec.categories) or spec.state in _FREE_STATES or spec.name in HANDSHAKE
