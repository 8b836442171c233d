"""One request as rules judge it, independent of the wire format."""

from collections.abc import Sequence
from dataclasses import dataclass

from proxy.commands.spec import Spec
from proxy.commands.table import Table


# Not frozen: a frozen dataclass takes three times as long to construct, and each key of a judged command is one.
@dataclass(slots=True)
class Key:
    """A key of a command: the index of its argument, and whether the command may write it."""

    index: int
    name: bytes
    write: bool


class KeysUnknownError(Exception):
    """The keys of a command are unknown, which is not the same as no keys. The text says why."""


class Command:
    """A command and its arguments, the name included.

    ``streamed`` is the index of an argument of ``streamed_length`` bytes that Keyrail forwards while they arrive.
    ``argv`` has only its first bytes, enough to recognise a word (``words.LONGEST``). ``further`` has the lengths of
    later large arguments, by index; ``argv`` has only their first bytes, too. ``named`` are the keys that a script
    names itself, beside the keys that the command declares, if Keyrail has read the script. ``noted`` is what the rules
    about the sizes of collections have found out about it, for each other. ``judged_calls`` are the calls of its script
    that rules have judged, each rule for itself: a short command may cost much.
    """

    __slots__ = (
        "_keys",
        "_places",
        "_table",
        "argv",
        "further",
        "judged_calls",
        "named",
        "noted",
        "spec",
        "streamed",
        "streamed_length",
    )

    def __init__(
        self,
        table: Table,
        argv: Sequence[bytes],
        spec: Spec | None = None,
        streamed: int | None = None,
        streamed_length: int = 0,
    ) -> None:
        self.argv = list(argv)
        self.spec = table.spec_of(self.argv) if spec is None else spec
        self.streamed = streamed
        self.streamed_length = streamed_length
        self.further: dict[int, int] = {}
        self.named: tuple[Key, ...] = ()
        self.noted: object = None
        self.judged_calls = 0
        self._table = table
        self._keys: tuple[Key, ...] | None = None
        self._places: tuple[tuple[int, bool], ...] | None = None

    def known_to(self, table: Table) -> "Command":
        """The same as this table knows it. Beyond the standard commands, ids of another table mean others, or none."""
        if table.has(self.spec):
            return self
        same = Command(table, self.argv, None, self.streamed, self.streamed_length)
        same.further = self.further
        return same

    @property
    def name(self) -> str:
        """``CONFIG SET``; for an unknown command, its first argument made printable."""
        return self.spec.display or _printable(self.argv[0] if self.argv else b"")

    @property
    def keys(self) -> tuple[Key, ...]:
        """The command's keys, in the order in which the key specifications list the arguments.

        Raises KeysUnknownError if any key is unknown.
        """
        if self._keys is None:
            keys = []
            for index, write in self.key_places:
                name = self.argv[index]
                if self.streamed is not None and self.length(index) != len(name):
                    size = self.length(index)
                    raise KeysUnknownError(f"the key in argument {index} is {size} bytes long, too long to be a name")
                keys.append(Key(index, name, write))
            self._keys = tuple(keys)
        return self._keys

    def preset_keys(self, keys: tuple[Key, ...]) -> None:
        """Use these keys in place of those in the arguments."""
        self._keys = keys
        self._places = tuple((key.index, key.write) for key in keys)

    @property
    def known_keys(self) -> tuple[Key, ...]:
        """The keys, or no keys if any is unknown: for counting, never for judging."""
        try:
            return self.keys
        except KeysUnknownError:
            return ()

    @property
    def has_no_keys(self) -> bool:
        """Whether it is known to have none."""
        try:
            return not self.spec.may_have_keys or not self.key_places
        except KeysUnknownError:
            return False

    @property
    def key_places(self) -> tuple[tuple[int, bool], ...]:
        """The arguments that are keys, by index, and whether the command may write each. Raises KeysUnknownError."""
        if self._places is None:
            found = self._table.keys_of(self.spec, self.argv)
            if found is None:
                raise KeysUnknownError(f"it is unknown which arguments of this {self.name} are keys")
            self._places = tuple(found)
        return self._places

    def length(self, index: int) -> int:
        """The size of argument ``index`` in bytes, whether or not it has arrived."""
        if self.streamed is None:
            return len(self.argv[index])
        if index == self.streamed:
            return self.streamed_length
        return self.further.get(index, len(self.argv[index]))

    @property
    def unseen(self) -> int:
        """The number of bytes of its arguments that have not arrived."""
        if self.streamed is None:
            return 0
        return sum(self.length(index) - len(self.argv[index]) for index in (self.streamed, *self.further))

    def __repr__(self) -> str:
        return f"Command({self.name!r}, {len(self.argv)} arguments)"


def _printable(name: bytes) -> str:
    """An unknown name, made printable: upper case, other bytes as ``?``, and cut."""
    return "".join(chr(byte) if 32 < byte < 127 else "?" for byte in name[:64]).upper()
