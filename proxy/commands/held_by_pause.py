"""Commands that Redis holds back while it pauses writes, and those by which it begins to do so."""

from proxy.commands.command import Command
from proxy.commands.rows import ROWS
from proxy.commands.table import Spec
from proxy.commands.words import word_of


def held_by_pause(spec: Spec) -> bool:
    """Whether a pause of writes holds this command back: one that writes or may replicate, a script, and a module's
    command unless it only reads."""
    row = ROWS.get(spec.name)
    if "write" in spec.flags or (row is not None and row.may_replicate):
        return True
    return spec.own_errors and "readonly" not in spec.flags


def pauses_writes(command: Command) -> bool:
    """Whether this command makes Redis hold writes back: CLIENT PAUSE milliseconds WRITE, or FAILOVER until the replica
    has everything."""
    row = ROWS.get(command.spec.name)
    if row is None or not (row.pauses_writes or row.pauses_writes_with):
        return False
    words = [*map(word_of, command.argv)]
    return row.pauses_writes_with in words if row.pauses_writes_with else row.ends_waits_with not in words
