"""KEYRAIL NODE n1 GET k: a command that carries another one, for a node that it names."""

from proxy.commands.command import Command
from proxy.commands.table import Table

_NAME = "KEYRAIL|NODE"
_NODE = 2


def wrapped_in(command: Command, table: Table) -> Command | None:
    """The command that this one carries; None for any other command, and where it is missing."""
    if command.spec.name != _NAME or len(command.argv) < -command.spec.arity:
        return None
    return Command(table, command.argv[_NODE + 1 :])


def node_of(wrapper: Command) -> str:
    """The node that is named."""
    return wrapper.argv[_NODE].decode("utf-8", "replace").lower()
