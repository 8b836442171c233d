"""The caps of collections by their keys, and what several rules with caps know together."""

from dataclasses import dataclass
from typing import Protocol

from proxy.commands.command import Command
from proxy.commands.spec import Spec
from proxy.rules.lowering import Lowering
from proxy.rules.sizes_known import KnownSizes
from proxy.schema.entries import KeyEntry


@dataclass(frozen=True, slots=True)
class Cap:
    """The most members of a collection, or entries of a stream.

    With `trims` a push removes surplus elements of its list. `unknown` says whether a command that writes a whole
    collection passes if the sizes of its sources are unknown. `owner` is the schema entry that sets the cap.
    """

    most: int
    trims: bool = False
    unknown: bool = True
    owner: KeyEntry | None = None


class Caps(Protocol):
    """The caps of one rule."""

    @property
    def trims(self) -> bool:
        """Whether any cap trims lists."""

    def about(self, stream: bool) -> bool:
        """Whether there is any cap for streams, or for other collections."""

    def of(self, key: bytes, stream: bool) -> Cap | None:
        """The cap of the collection at this key; None if it has none."""

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """Have the commands judged that may write a collection with a cap."""


class SharedSizes(KnownSizes):
    """The sizes that all rules with caps know, in one worker: a look-up of one of them serves the others. Each trusts a
    size for as long as its own settings say."""

    def __init__(self) -> None:
        super().__init__(0)


class CommandNotes:
    """What rules with caps have found out about one command, for those that judge it after them.

    `counted`: the members that it may add are counted. `asked`: the size of its collection is looked up, or its reply
    tells it; `awaited`: the command waits for that; `untold`: Redis does not tell it. `told` are the replies about the
    sources of its result. `trimmed` is the length to which its list is trimmed.
    """

    __slots__ = ("asked", "awaited", "counted", "told", "trimmed", "untold")

    def __init__(self) -> None:
        self.asked = False
        self.awaited = False
        self.counted = False
        self.told: tuple[bytes, ...] | None = None
        self.trimmed: int | None = None
        self.untold = False


def notes_of(command: Command) -> CommandNotes:
    """The notes about this command."""
    notes = command.noted
    if type(notes) is not CommandNotes:
        notes = command.noted = CommandNotes()
    return notes
