"""What Keyrail answers in place of the nodes of a cluster: about the cluster, and to commands that no node may get."""

from proxy.cluster.cluster_answers import DISABLED, Presented, as_cluster, as_single
from proxy.commands.command import Command
from proxy.commands.rows import ROWS
from proxy.wire.encode import encode_error

_ABOUT_THE_CLUSTER = "CLUSTER"


def own_answer(command: Command, presented: Presented | None, protocol: int, *, valkey: bool) -> bytes | None:
    """The reply; None for a command that goes to nodes. Clients see one plain Redis if nothing is ``presented``."""
    spec, argv = command.spec, command.argv
    row = ROWS.get(spec.name)
    answer = None if row is None else row.cluster_answer
    if answer is not None and has_its_arguments(command):
        if presented is None:
            return as_single(answer, argv, valkey=valkey)
        return as_cluster(answer, argv, presented, protocol)
    about_cluster = spec.name.startswith(_ABOUT_THE_CLUSTER)
    if presented is None and about_cluster and not spec.container and has_its_arguments(command):
        return DISABLED
    reason = spec.over_nodes.destination.refusal
    if reason and has_its_arguments(command):
        return encode_error(f"ERR keyrail: {command.name} is not available with a cluster upstream: {reason}")
    return None


def has_its_arguments(command: Command) -> bool:
    """Whether it has as many as it needs. If not, any node has the engine's own words for that."""
    arity, count = command.spec.arity, len(command.argv)
    return count == arity if arity > 0 else count >= -arity
