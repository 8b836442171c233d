"""Reads of whole collections: the commands, the keys that they read, and the commands for the sizes of those keys."""

from proxy.commands.command import Command
from proxy.commands.rows import ROWS
from proxy.commands.spans import ENDLESS, elements_asked

WHOLE_COLLECTION_COMMANDS = {row.name: row.whole for row in ROWS.values() if row.whole is not None}
"""By the command's name."""

READS = tuple(name for name, whole in WHOLE_COLLECTION_COMMANDS.items() if whole.sent)
"""The commands that send the whole collection to the client."""


def asked_of_whole(command: Command) -> int:
    """How many members the command asks for: ENDLESS, unless its span has an end."""
    asked = elements_asked(command) if WHOLE_COLLECTION_COMMANDS[command.spec.name].spans else None
    return ENDLESS if asked is None else asked


def measured_keys(command: Command, most: int = ENDLESS - 1) -> list[bytes]:
    """The collections that the command reads as a whole; none if it asks for ``most`` members or fewer."""
    if asked_of_whole(command) <= most:
        return []
    return [key.name for key in command.keys if not key.write]
