"""A command that changes nothing, and that Redis holds back like a write while it pauses them: PFCOUNT
(``may_replicate`` in its table of commands).

Redis checks permissions, BUSY and LOADING before it checks for a pause, so an error proves nothing but that of a key of
another type. Where the user may not run PFCOUNT, or not with this key, an empty script is sent behind it, which needs
no key: a pause holds a script back that does not say that it writes nothing.
"""

from itertools import count, islice

from proxy.commands.error_texts import RUNS_WRITES
from proxy.commands.slots import slot_of
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.topology.topology import Topology
from proxy.session.ports.pool_key import Node

_EMPTY_SCRIPT = ("EVAL", "return 1", "0")
_MOST_TRIED = 100_000


async def runs_writes(upstream: UpstreamConnection, topology: Topology) -> bool:
    """Ask on a connection on which nothing else waits; the reply comes when no pause of writes is in force.

    False where Redis answers and that proves nothing: the user may run neither command, or Redis is busy or loading.
    """
    reply = await upstream.ask(["PFCOUNT", _key_of(topology, upstream.key.node)])
    if _refused(reply):
        reply = await upstream.ask(_EMPTY_SCRIPT)
    return not _refused(reply)


def _refused(reply: bytes) -> bool:
    return reply.startswith(b"-") and not RUNS_WRITES.begin(reply)


def _key_of(topology: Topology, node: Node) -> str:
    # A node of a cluster answers at once where a key is not its own.
    router, keys = topology.router, (f"keyrail:answers:{number}" for number in count())
    if router is None:
        return next(keys)
    some = islice(keys, _MOST_TRIED)
    return next((key for key in some if router.owner(slot_of(key.encode())) == node.number), "keyrail:answers")
