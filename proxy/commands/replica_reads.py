"""Which commands replicas may answer: those that only read keys, and answer from the data alone."""

from proxy.commands.spec import ConnectionState, Spec

_NOT_DATA = frozenset({"MEMORY|USAGE", "TOUCH"})
"""They speak of the server's memory and its clock."""
_ABOUT_SERVER = ("OBJECT|", "XINFO|")
_CURSORS = "SCAN"
"""A cursor of HSCAN, SSCAN, ZSCAN means nothing to another server: a walk would miss members."""


def served_by_replicas(spec: Spec) -> bool:
    """Whether a replica may answer the command in the primary's place.

    Not scripts, whose text a replica may not have and whose errors may read as the server's, nor modules' commands.
    """
    if not spec.only_reads or "readonly" not in spec.flags or spec.own_errors:
        return False
    if spec.state is not ConnectionState.POOL or not spec.may_have_keys or spec.may_replicate:
        return False
    return spec.name not in _NOT_DATA and not spec.name.startswith(_ABOUT_SERVER) and not spec.name.endswith(_CURSORS)
