"""The calls of a script as the commands that Redis will run, with the keys and arguments of one run.

A word that the text does not tell stays unknown. A call with an unknown argument can still be judged: for most commands
only the number of arguments tells which of them are keys. If it depends on the unknown argument (a number of keys, a
word that may be STORE), the keys are unknown.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from proxy.commands.command import Command, Key
from proxy.commands.rows import ROWS
from proxy.commands.sort_patterns import beginnings_of
from proxy.commands.spec import KeySpec, Spec
from proxy.commands.table import Table
from proxy.commands.values import whole_number
from proxy.rules.scripts.text import EVERY, LONGEST_NAME, ScriptCall, Word

_FIRST_KEY = 3
_NUMBER_OF_KEYS = 2

SCRIPT_USES = {row.name: row.script for row in ROWS.values() if row.script is not None}
"""What commands are to scripts: see ``row``."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The keys and arguments of one run of a script; None if they are unknown, and for each unknown one.

    If they come `later`, the script is only loaded; it is judged again when it runs.
    """

    keys: Sequence[bytes | None] | None = None
    arguments: Sequence[bytes | None] | None = None
    later: bool = False

    def of(self, word: Word) -> bytes | None:
        """The value of a word; None if unknown."""
        if isinstance(word, bytes):
            return word
        values = self.all(word)
        return None if values is None or not 1 <= word.index <= len(values) else values[word.index - 1]

    def all(self, word: Word) -> Sequence[bytes | None] | None:
        """All values of the table that a word stands for."""
        if isinstance(word, bytes) or not word.table:
            return None
        return self.keys if word.table == "KEYS" else self.arguments


def inputs_of(command: Command) -> Inputs:
    """The keys and arguments that a command gives to its script. None are known for a function: the text of its library
    does not tell which calls belong to which function."""
    argv = command.argv
    use = SCRIPT_USES.get(command.spec.name)
    if use == "load":
        return Inputs(later=True)
    if use not in ("text", "sha") or len(argv) <= _NUMBER_OF_KEYS:
        return Inputs()
    count = whole_number(argv[_NUMBER_OF_KEYS])
    if count is None or not 0 <= count <= len(argv) - _FIRST_KEY:
        return Inputs()
    known = [
        argument if command.length(index) == len(argument) else None
        for index, argument in enumerate(argv[_FIRST_KEY:], _FIRST_KEY)
    ]
    return Inputs(known[:count], known[count:])


def named_by(call: ScriptCall, inputs: Inputs) -> ScriptCall | None:
    """A call whose name is an argument of the run, with that name; None if it is unknown."""
    name = inputs.of(call.words[0])
    return None if not name or len(name) > LONGEST_NAME else replace(call, words=(name, *call.words[1:]))


def known_beginning(call: ScriptCall) -> list[bytes]:
    """The words of a call before the first unknown one."""
    known = []
    for word in call.words:
        if not isinstance(word, bytes):
            break
        known.append(word)
    return known


class CalledCommand(Command):
    """A command that a script calls; an unknown argument is empty, and no key.

    `undeclared`: a key is neither declared for the script nor a literal, or the keys are unknown. `named` are the known
    keys that are not declared.
    """

    __slots__ = ("undeclared",)

    def __init__(self, table: Table, shape: "_Shape", values: Sequence[bytes | None], told: bool) -> None:
        super().__init__(table, [b"" if value is None else value for value in values], shape.spec)
        self.undeclared = not told or bool(beginnings_of(self))
        keys, named = [], []
        for index, write in shape.places:
            word, value = shape.words[index], values[index]
            literal = isinstance(word, bytes)
            declared = not isinstance(word, bytes) and word.table == "KEYS"
            self.undeclared = self.undeclared or not (declared or literal)
            if value is not None:
                keys.append(Key(index, value, write))
                if not declared:
                    named.append(keys[-1])
        self.preset_keys(tuple(keys))
        self.named = tuple(named)


@dataclass(frozen=True, slots=True)
class _Shape:
    """The parts of a call that do not depend on values: its words, each one argument; which are keys and may be
    written; and whether all other keys are declared."""

    spec: Spec
    words: Sequence[Word]
    places: Sequence[tuple[int, bool]]
    told: bool


class PreparedCall:
    """A call of a script, with everything that is the same in each run.

    `beginning` are its words before the first unknown one; if `complete`, these are all words.
    """

    __slots__ = ("_call", "_depends", "_fixed", "_shape", "_table", "beginning", "complete")

    def __init__(self, table: Table, call: ScriptCall) -> None:
        self.beginning = Command(table, known_beginning(call))
        self.complete = call.complete and len(self.beginning.argv) == len(call.words)
        self._table = table
        self._call = call
        self._depends = any(not isinstance(word, bytes) and word.table for word in call.words)
        self._shape = self._fixed_shape()
        self._fixed: CalledCommand | None = None

    @property
    def chooses_subcommand(self) -> bool:
        """Whether the command is unknown because its subcommand is."""
        return self.beginning.spec.container and len(self.beginning.argv) == 1 and not self.complete

    def called(self, inputs: Inputs) -> CalledCommand:
        """The command that the script calls with these inputs."""
        if self._depends or self._shape is None:
            return self._called(inputs)
        if self._fixed is None:
            self._fixed = self._called(inputs)
        return self._fixed

    def _called(self, inputs: Inputs) -> CalledCommand:
        shape = self._shape or self._shape_with(inputs)
        told = shape.told or (inputs.later and self._depends)
        return CalledCommand(self._table, shape, [inputs.of(word) for word in shape.words], told)

    def _fixed_shape(self) -> _Shape | None:
        """The shape, if no input can change it."""
        last, spec = self._call.words[-1], self.beginning.spec
        if not isinstance(last, bytes) and last.index == EVERY:
            return None
        if self._depends and (not _keys_by_number(spec) or (spec.container and len(self.beginning.argv) == 1)):
            return None
        return self._shape_with(Inputs())

    def _shape_with(self, inputs: Inputs) -> _Shape:
        words, complete = _spread(self._call, inputs)
        argv = [inputs.of(word) or b"" for word in words]
        spec = self._table.spec_of(argv)
        return _Shape(spec, words, *places_of(self._table, spec, words, argv, complete))


def undeclared_keys(called: Iterable[CalledCommand]) -> tuple[Key, ...]:
    """The known keys that are not declared, each once; a key counts as written if a call may create it."""
    found: dict[bytes, Key] = {}
    for each in called:
        for key in each.named:
            creates = key.write and (each.spec.creates or each.spec.drops_ttl)
            written = creates or (key.name in found and found[key.name].write)
            found[key.name] = Key(key.index, key.name, written)
    return tuple(found.values())


def with_named_keys(table: Table, command: Command) -> Command:
    """A command that runs a script, with the keys that the script names itself added."""
    whole = Command(table, [*command.argv, *(key.name for key in command.named)], command.spec)
    places = range(len(command.argv), len(whole.argv))
    named = (Key(place, key.name, key.write) for place, key in zip(places, command.named, strict=True))
    whole.preset_keys((*command.keys, *named))
    return whole


def _spread(call: ScriptCall, inputs: Inputs) -> tuple[list[Word], bool]:
    """The words of a call, each one argument, and whether there are no others."""
    *words, last = call.words
    if isinstance(last, bytes) or last.index != EVERY:
        return [*words, last], call.complete
    values = inputs.all(last)
    if values is None:
        return [*words, last], False
    return [*words, *(replace(last, index=i + 1) for i in range(len(values)))], True


def _keys_by_number(spec: Spec) -> bool:
    """Whether the number of arguments alone tells which of them are keys."""
    return all(each.begin == "index" and each.find == "range" for each in spec.key_specs if each.names_keys)


def places_of(
    table: Table, spec: Spec, words: Sequence[Word], argv: Sequence[bytes], complete: bool
) -> tuple[list[tuple[int, bool]], bool]:
    """The words that are keys and may be written, and whether all other keys are declared."""
    named = [key_spec for key_spec in spec.key_specs if key_spec.names_keys]
    if not named:
        return [], bool(spec.id)
    if _keys_by_number(spec):
        return _places_by_number(table, spec, named, words, argv, complete)
    found = table.keys_of(spec, argv)
    if found is None:
        return [], False
    if not all(each.begin == "index" and each.find in ("range", "keynum") for each in named):
        # An unknown word may be an option with a key behind it.
        keys = {index for index, _ in found}
        if not (complete and all(isinstance(word, bytes) or i in keys for i, word in enumerate(words))):
            return [], False
    return found, True


def _places_by_number(
    table: Table,
    spec: Spec,
    named: Sequence[KeySpec],
    words: Sequence[Word],
    argv: Sequence[bytes],
    complete: bool,
) -> tuple[list[tuple[int, bool]], bool]:
    writes = dict(table.keys_of(spec, argv) or ()) if complete else {}
    rest, size = words[-1], len(words)
    declared_rest = not isinstance(rest, bytes) and rest.table == "KEYS" and rest.index == EVERY
    if declared_rest:
        size -= 1
    places: list[tuple[int, bool]] = []
    told = True
    for each in named:
        last = each.start + each.last if each.last >= 0 else size + each.last if complete else size
        told = told and (complete or declared_rest or (each.last >= 0 and last < size))
        fits = range(each.start, min(last + 1, size), max(1, each.step))
        places += [(index, writes.get(index, each.writes)) for index in fits]
    return places, told
