"""Where a command goes when the upstream has several nodes, and how their replies become one.

The start is what engines tip: COMMAND's ``request_policy`` and ``response_policy``, by which a cluster client is to
treat the command (https://redis.io/docs/latest/develop/reference/command-tips/). Where tips are missing, or are about
what Keyrail must not do, the command's row decides.
"""

from enum import Enum
from typing import NamedTuple


class Destination(Enum):
    """Which nodes a command is sent to. The values are words of the documentation."""

    SLOT = "the primary of the slot of its keys; a request without keys, any primary"
    SLOT_NUMBER = "the primary of the slot that its first argument names"
    SPLIT = "the primaries of its keys, split by slot"
    SPLIT_IF_ALLOWED = "as one key's; over several slots split by slot where the policy says `cross_slot: split`"
    ALL_PRIMARIES = "all primaries"
    ALL_NODES = "all primaries, then all replicas"
    ANY = "any primary"
    ONE_NODE = "the first primary"
    PUBLISH = "any primary, while the others are asked for their subscribers"
    WALK = "all primaries, one after the other"
    WAIT = "the primaries that the client has written to, on connections of its own"
    TRANSACTION = "the primary of the transaction's keys"
    CONNECTION = "any primary; the client's later commands on all nodes follow it"
    HERE = "Keyrail answers"
    REFUSED = "refused: it does not fit a cluster"
    ON_NODES = "refused: run it on the nodes"
    OF_ONE_CONNECTION = "refused: it is about one connection to Redis, and a client uses one to each node"

    @property
    def refusal(self) -> str:
        """Why clients may not send it; empty if they may."""
        word, colon, reason = self.value.partition("refused: ")
        return reason if colon and not word else ""


class Join(Enum):
    """How the replies of several nodes become one. The values are words of the documentation."""

    NONE = ""
    BY_KEY = "values in the order of the keys"
    SUM = "the sum"
    MIN = "the least"
    LOGICAL_AND = "1 where all nodes say 1"
    ALL_SUCCEEDED = "the first reply, if no node fails"
    ONE_SUCCEEDED = "the first reply that is no error"
    ARRAYS = "one array of all elements"
    DISTINCT = "one array of all elements, equal ones once"
    SUM_BY_NAME = "the sum for each name"
    NOT_NULL = "one that is not null, each node's by its share of keys"


class OverNodes(NamedTuple):
    """The decision about one command."""

    destination: Destination
    join: Join = Join.NONE


TO_SLOT = OverNodes(Destination.SLOT)
TO_SLOT_NUMBER = OverNodes(Destination.SLOT_NUMBER)
SPLIT_IF_ALLOWED = OverNodes(Destination.SPLIT_IF_ALLOWED, Join.ALL_SUCCEEDED)
ANY_NODE = OverNodes(Destination.ANY)
ONE_NODE = OverNodes(Destination.ONE_NODE)
PUBLISHED = OverNodes(Destination.PUBLISH, Join.SUM)
WALKED = OverNodes(Destination.WALK)
WAITED = OverNodes(Destination.WAIT, Join.MIN)
IN_TRANSACTION = OverNodes(Destination.TRANSACTION)
OF_CONNECTION = OverNodes(Destination.CONNECTION)
HERE = OverNodes(Destination.HERE)
REFUSED = OverNodes(Destination.REFUSED)
ON_NODES = OverNodes(Destination.ON_NODES)
OF_ONE_CONNECTION = OverNodes(Destination.OF_ONE_CONNECTION)
ALL_MUST_SUCCEED = OverNodes(Destination.ALL_PRIMARIES, Join.ALL_SUCCEEDED)
EVERYWHERE = OverNodes(Destination.ALL_NODES, Join.ALL_SUCCEEDED)
ONE_MUST_SUCCEED = OverNodes(Destination.ALL_PRIMARIES, Join.ONE_SUCCEEDED)
LEAST = OverNodes(Destination.ALL_PRIMARIES, Join.MIN)
NOT_NULL = OverNodes(Destination.ALL_PRIMARIES, Join.NOT_NULL)
SUM = OverNodes(Destination.ALL_PRIMARIES, Join.SUM)
SUMS_BY_NAME = OverNodes(Destination.ALL_PRIMARIES, Join.SUM_BY_NAME)
DISTINCT = OverNodes(Destination.ALL_PRIMARIES, Join.DISTINCT)

_REQUESTS = {
    "all_shards": Destination.ALL_PRIMARIES,
    "all_nodes": Destination.ALL_NODES,
    "multi_shard": Destination.SPLIT,
}
_RESPONSES = {
    "agg_sum": Join.SUM,
    "agg_min": Join.MIN,
    "agg_logical_and": Join.LOGICAL_AND,
    "all_succeeded": Join.ALL_SUCCEEDED,
    "one_succeeded": Join.ONE_SUCCEEDED,
}


def tipped(request_policy: str, response_policy: str) -> OverNodes | None:
    """The decision that an engine's tips make; None where they make none, or ask for treatment of its own kind."""
    destination, join = _REQUESTS.get(request_policy), _RESPONSES.get(response_policy)
    if destination is None or (response_policy and join is None):
        return None
    if destination is Destination.ALL_NODES and join is not Join.ALL_SUCCEEDED:
        destination = Destination.ALL_PRIMARIES  # a reply that tells something tells it of those
    if join is None:
        # Without a policy, replies of keys are joined in the order of the keys, and others in any order.
        join = Join.BY_KEY if destination is Destination.SPLIT else Join.ARRAYS
    return OverNodes(destination, join)
