"""What Keyrail sends itself. An ACL that denies it would take away what the policy allows.

As the client's user it sends what rules need (``CompiledPolicy.needs``), what asks for the size of a collection, and
what connections need. As its own user it also asks servers what they are, watches keys for the local cache, and scans.
"""

from collections.abc import Collection

from proxy.commands.growth import MEASURED
from proxy.policy.acl.versions import Version
from proxy.policy.decision import Step

ALWAYS_RUN = frozenset({"AUTH", "HELLO", "QUIT", "RESET"})
"""Redis runs them for every user (flag ``no_auth``), so an ACL cannot deny them."""
_AS_ANY_CLIENT = (
    "ASKING CLIENT|GETNAME CLIENT|REPLY CLIENT|SETINFO CLIENT|SETNAME COMMAND|INFO DBSIZE DISCARD EXEC EXISTS MULTI "
    "PING PTTL READONLY SELECT TTL TYPE"
)
_AS_KEYRAIL = (
    "CLIENT|NO-TOUCH CLIENT|TRACKING CLUSTER|COUNTKEYSINSLOT CLUSTER|GETKEYSINSLOT CLUSTER|INFO CLUSTER|MYID "
    "CLUSTER|NODES CLUSTER|SLOTS COMMAND HPTTL INFO MEMORY|USAGE PFCOUNT ROLE SCAN SCRIPT|LOAD TOUCH"
)
AS_ANY_CLIENT = ALWAYS_RUN | frozenset(_AS_ANY_CLIENT.split()) | frozenset(MEASURED)
"""Sent as the client's user, whatever the policy is."""
AS_KEYRAIL = AS_ANY_CLIENT | frozenset(_AS_KEYRAIL.split())
"""Sent as the user in `--upstream`, by `keyrail scan`, too. An EVAL is sent only where PFCOUNT is denied."""
OWN_KEYS = b"keyrail:"
"""The beginning of the keys that Keyrail asks about to find out what its user may do, which it never writes, and of the
channel of a message that it sends before WAIT."""


def sent_for(steps: Collection[Step], needs: frozenset[str], version: Version) -> frozenset[str]:
    """What Keyrail sends as a client's user under these rules, which declare their `needs`. A script sets a TTL only
    where EXPIRE has no options, as in Redis 6.2."""
    names = (needs - {"EVAL"} if version.selectors else needs).union(*(step.rule.needs.asks for step in steps))
    return AS_ANY_CLIENT | {name.replace(" ", "|") for name in names}


def asks_for_any_key(steps: Collection[Step]) -> bool:
    """Whether rules ask for keys that a client names, although they are no keys of its command."""
    return any("EXISTS" in step.rule.needs.asks for step in steps)


def changes_lifetimes(needs: frozenset[str]) -> bool:
    """Whether Keyrail may change the TTL of a key that a client has only read."""
    return bool(needs & {"EXPIRE", "EVAL"})
