"""Which commands replicas may answer: those that only read keys, and answer from the data alone."""

from proxy.commands.overlay import at_primary
from proxy.commands.rows import ROWS
from proxy.commands.spec import ConnectionState, Spec


def served_by_replicas(spec: Spec) -> bool:
    """Whether a replica may answer the command in the primary's place.

    Not scripts, whose text a replica may not have and whose errors may read as the server's, nor modules' commands.
    """
    if not spec.only_reads or "readonly" not in spec.flags or spec.own_errors:
        return False
    if spec.state is not ConnectionState.POOL or not spec.may_have_keys or spec.may_replicate:
        return False
    return not at_primary(spec.name)


def hides_absence(spec: Spec) -> bool:
    """Whether the reply to a read may not show that its key does not exist: that of commands which no available engine
    has is not known. Those that engines have answer null, 0, -1, -2, none, an error, or something empty."""
    row = ROWS.get(spec.name)
    return row is not None and row.published is not None
