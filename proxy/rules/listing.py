"""Commands as policies list them: by name, and optionally by their first arguments.

``FLUSHALL`` is the command with any arguments, ``CONFIG SET`` a subcommand, ``FLUSHALL ASYNC`` only requests that begin
with that argument, in any letter case. A container (``CONFIG``) stands for all its subcommands, future ones included:
subcommands outside of the command table are matched by their bytes. A command also stands for its equivalent (SLAVEOF
for REPLICAOF), so that clients cannot bypass a list.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.commands.equivalents import equivalents
from proxy.commands.table import Spec, Table
from proxy.commands.words import word_of

_UNKNOWN = 0


@dataclass(frozen=True, slots=True)
class ListedCommand:
    """One line of a list: `text` in capitals; `command` is the name in it, `words` are the words that follow."""

    text: str
    command: str
    words: tuple[bytes, ...] = ()


def entry_of(text: str, table: Table) -> ListedCommand:
    """A listed text, split; a first word that the table does not know is an unknown command."""
    first, *rest = text.upper().split() or [""]
    names = [*first.split("|"), *rest]
    for count in (2, 1):
        command = " ".join(names[:count])
        if len(names) >= count and table.find(command) is not None:
            return ListedCommand(" ".join(names), command, tuple(word.encode() for word in names[count:]))
    return ListedCommand(" ".join(names), names[0], tuple(word.encode() for word in names[1:]))


class Listing:
    """A list of commands, bound to a table."""

    def __init__(self, texts: Iterable[str], table: Table) -> None:
        self._by_id: dict[int, list[ListedCommand]] = {}
        self._by_first_word: dict[bytes, list[ListedCommand]] = {}
        aliases = table.aliases
        for entry in sorted((entry_of(text, table) for text in texts), key=lambda entry: -len(entry.words)):
            spec = table.find(entry.command)
            if spec is None or spec.container:
                named = (alias for alias, command in aliases.items() if command == entry.command)
                for word in (entry.command, *named):
                    self._by_first_word.setdefault(word.encode(), []).append(entry)
            for each in covered(spec, table):
                self._by_id.setdefault(each.id, []).append(entry)

    def touches(self, spec: Spec) -> bool:
        """Whether some request of this command can be in the list; `spec` may stand for all unknown commands."""
        return spec.id in self._by_id or (spec.id == _UNKNOWN and bool(self._by_first_word))

    def holds(self, spec: Spec) -> bool:
        """Whether every request of this command is in the list."""
        return any(not entry.words for entry in self._by_id.get(spec.id, ()))

    def reads_words(self, spec: Spec) -> bool:
        """Whether entries for this command have words, so that arguments decide; for unknown commands: any entry."""
        if spec.id == _UNKNOWN:
            return any(entry.words for entries in self._by_first_word.values() for entry in entries)
        return any(entry.words for entry in self._by_id.get(spec.id, ()))

    def always(self, spec: Spec) -> ListedCommand | None:
        """The entry that every request of this command matches; None if it depends on the arguments."""
        entries = self._by_id.get(spec.id)
        return None if entries is None or entries[0].words else entries[0]

    def find(self, command: Command) -> ListedCommand | None:
        """The entry that a request matches; of several, the one with most words."""
        return self._search(command.spec, command.argv, cut=False)

    def find_any(self, command: Command) -> ListedCommand | None:
        """An entry that a request matches, or may match with more arguments than the known ones."""
        return self._search(command.spec, command.argv, cut=True)

    def _search(self, spec: Spec, argv: Sequence[bytes], cut: bool) -> ListedCommand | None:
        if spec.id != _UNKNOWN:
            entries = self._by_id.get(spec.id, ())
            arguments = argv[2:] if "|" in spec.name else argv[1:]
        else:
            entries = self._by_first_word.get(word_of(argv[0]), ())
            arguments = argv[1:]
        for entry in entries:
            words = entry.words[: len(arguments)] if cut else entry.words
            if len(arguments) >= len(words) and all(
                word_of(argument) == word for argument, word in zip(arguments, words, strict=False)
            ):
                return entry
        return None


def covered(spec: Spec | None, table: Table) -> Iterable[Spec]:
    """The commands that the name of `spec` stands for: itself, its subcommands, and the equivalents of each."""
    if spec is None:
        return ()
    family: Sequence[Spec] = (spec, *table.subcommands(spec.name)) if spec.container else (spec,)
    found = (table.find(equivalent) for each in family for equivalent in equivalents(each.display))
    return {
        each.id: each for each in (*family, *(equivalent for equivalent in found if equivalent is not None))
    }.values()
