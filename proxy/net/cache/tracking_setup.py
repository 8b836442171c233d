"""How a new connection becomes the tracking connection of a database, and what its user may not do there.

Where the user may not run what each fill needs, there is no cache: each fill would cost Redis three commands, and keep
nothing.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from proxy.commands.error_texts import FIELD_TTLS_ELSEWHERE, FIELD_TTLS_UNKNOWN
from proxy.local_cache.expected import refuses_command
from proxy.net.connection.connect import UpstreamRefusedError
from proxy.net.connection.upstream import UpstreamConnection

_KEY = "keyrail:probe"
"""How replies begin to a command that the user may run. Nodes of a cluster look at rights before they look at slots."""


class FieldTtls(Enum):
    """Whether fields of hashes can have a TTL."""

    NONE = "none"
    """The engine has none: the reply to a read of a hash depends on its key alone."""
    ASKED = "asked"
    """HPTTL tells them."""
    UNTOLD = "untold"
    """The engine may have them, and does not tell: no reply to a read of a hash can be kept."""


class Tracking(NamedTuple):
    """What the connection can be used for; ``features_off`` say what it cannot, and why."""

    field_ttls: FieldTtls
    features_off: Sequence[str] = ()


async def begin_tracking(upstream: UpstreamConnection) -> Tracking:
    """Turn CLIENT TRACKING on. Raises UpstreamRefusedError and ConnectionResetError."""
    refusal = await _refusal(upstream, "PTTL", _KEY)
    if refusal:
        raise UpstreamRefusedError(refusal)
    off = []
    field_ttls, refusal = await _field_ttls(upstream)
    if refusal:
        off.append(f"the local cache keeps no reads of hashes, since it cannot ask for TTLs of fields ({refusal})")
    refusal = await _refusal(upstream, "TOUCH", _KEY)
    if refusal:
        off.append(
            f"the local cache does not tell Redis which keys are used, so eviction takes them sooner ({refusal})"
        )
    reply = await upstream.ask(["CLIENT", "TRACKING", "ON"])
    if reply != b"+OK\r\n":
        raise UpstreamRefusedError(f"CLIENT TRACKING: {_text(reply)}")
    return Tracking(field_ttls, off)


async def _refusal(upstream: UpstreamConnection, *argv: str) -> str:
    # Why Redis never runs this command for Keyrail's user; empty if it does.
    reply = await upstream.ask(argv)
    return f"{argv[0]}: {_text(reply)}" if refuses_command(reply) else ""


async def _field_ttls(upstream: UpstreamConnection) -> tuple[FieldTtls, str]:
    reply = await upstream.ask(["HPTTL", _KEY, "FIELDS", 1, "none"])
    if FIELD_TTLS_UNKNOWN.begin(reply):
        return FieldTtls.NONE, ""
    if refuses_command(reply):
        return FieldTtls.UNTOLD, f"HPTTL: {_text(reply)}"
    if reply.startswith(b"*") or FIELD_TTLS_ELSEWHERE.begin(reply) or b" to access " in reply:
        return FieldTtls.ASKED, ""
    raise UpstreamRefusedError(f"HPTTL: {_text(reply)}")


def _text(error: bytes) -> str:
    return error[1:-2].decode("utf-8", "replace")
