"""Which commands replicas may answer: those that only read keys, and answer from the data alone."""

from proxy.commands.overlay import at_primary
from proxy.commands.row import ScriptUse
from proxy.commands.rows import ROWS
from proxy.commands.spec import ConnectionState, Spec

_RUN: frozenset[ScriptUse | None] = frozenset({"text", "sha", "function"})


def served_by_replicas(spec: Spec) -> bool:
    """Whether a replica may answer the command in the primary's place.

    Of scripts those that the engine keeps from writing (EVAL_RO), and no modules' commands, whose errors may read as
    the server's.
    """
    if spec.state is not ConnectionState.POOL or not spec.may_have_keys or "readonly" not in spec.flags:
        return False
    if read_only_script(spec) is not None:
        return True
    return spec.only_reads and not (spec.own_errors or spec.may_replicate or at_primary(spec.name))


def read_only_script(spec: Spec) -> ScriptUse | None:
    """How the command names the script that it runs, which changes nothing; None for another command."""
    row = ROWS.get(spec.name)
    return row.script if row is not None and row.script in _RUN and "readonly" in spec.flags else None


def reads_others(spec: Spec) -> bool:
    """Whether some forms of a command read keys that its arguments do not name: see ``reads_no_others``."""
    row = ROWS.get(spec.name)
    return row is not None and row.reads_others


def hides_absence(spec: Spec) -> bool:
    """Whether the reply to a read may not show that its key does not exist: a script returns what it likes, and the
    replies of commands that no available engine has are not known. Other reads answer null, 0, -1, -2, none, an error,
    or something empty."""
    row = ROWS.get(spec.name)
    return row is not None and (row.published is not None or row.script in _RUN)
