"""Commands that Redis holds back while it pauses writes, and those by which it begins to do so."""

from proxy.commands.command import Command
from proxy.commands.rows import ROWS
from proxy.commands.table import ConnectionState, Spec
from proxy.commands.words import word_of


def held_by_pause(spec: Spec) -> bool:
    """Whether a pause of writes holds this command back: one that writes or may replicate, a script, and a module's
    command unless it only reads."""
    row = ROWS.get(spec.name)
    if "write" in spec.flags or (row is not None and row.may_replicate):
        return True
    return spec.own_errors and "readonly" not in spec.flags


def may_run_elsewhere(spec: Spec) -> bool:
    """Whether a command that waits behind one that is held back may be sent again on another connection, and so run
    twice: a read that no pause holds back. Not what modules read, as it may move a cursor, and not what relies on the
    server's process, as Redis 6.2 holds SCRIPT EXISTS back."""
    plain = spec.state is ConnectionState.POOL and spec.only_reads
    return plain and not (spec.own_errors or spec.process_bound or held_by_pause(spec))


def pauses_writes(command: Command) -> bool:
    """Whether this command makes Redis hold writes back: CLIENT PAUSE milliseconds WRITE, or FAILOVER until the replica
    has everything."""
    row = ROWS.get(command.spec.name)
    if row is None or not (row.pauses_writes or row.pauses_writes_with):
        return False
    words = [*map(word_of, command.argv)]
    return row.pauses_writes_with in words if row.pauses_writes_with else row.ends_waits_with not in words
