"""The keys that a script can read or write, where its text proves that there are no others.

Declaring keys proves nothing: before one Redis, and within one node of a cluster, a script may use any key. So its text
is read (``text``): each call must be told by it, with keys that are declared or literals, and must be about its keys
alone. A text that is not known, and a function, prove nothing. A text is read when it runs for the second time, as some
clients write a new one for each run.
"""

import re
from collections import OrderedDict
from collections.abc import Sequence

from proxy.commands.cached_reads import CACHED, CACHED_PARTS, KEYS, NO_KEYS, READS, cache_role
from proxy.commands.command import Command, KeysUnknownError
from proxy.commands.rows import ROWS
from proxy.commands.spec import ConnectionState
from proxy.commands.table import Table
from proxy.rules.scripts.calls import SCRIPT_USES, PreparedCall, inputs_of, undeclared_keys
from proxy.rules.scripts.memory import sha_of
from proxy.rules.scripts.text import ScriptCalls, read_script

LONGEST = 16 * 1024
"""The most bytes of a text that is read. One KB takes about 3 ms."""
MOST_BYTES = 4 << 20
"""Of the texts that are remembered. The least recently used ones are forgotten."""
_BYTES_EACH = 500
_TEXT_AT = {"text": 1, "load": 2}
_UNTOLD = re.compile("|".join(name for name, row in ROWS.items() if row.changes_untold).encode(), re.IGNORECASE)
"""Names of commands of which Redis does not tell what they change."""
_ABOUT_THEIR_KEYS = (NO_KEYS, CACHED, CACHED_PARTS, READS, KEYS)


class _Script:
    """A script by its text."""

    def __init__(self, text: bytes) -> None:
        self.size = len(text) + _BYTES_EACH
        self.names_untold = _UNTOLD.search(text) is not None
        self._has_run = False
        self._text = text
        self._found: ScriptCalls | None = None
        self._table: Table | None = None
        self._calls: Sequence[PreparedCall] = ()

    def calls(self, table: Table) -> Sequence[PreparedCall] | None:
        """Its calls, as it runs now; None if they are not known."""
        if not self._has_run:
            self._has_run = True
            return None
        if self._found is None:
            self._found, self._text = read_script(self._text), b""
        if self._found.dynamic:
            return None
        if self._table is not table:
            self._table = table
            self._calls = [PreparedCall(table, call) for call in self._found.calls]
        return self._calls


class OwnKeys:
    """The scripts that this worker has seen, by their SHA1. A SHA1 stands for the same text everywhere, so scripts are
    remembered whether or not Redis accepts them."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._left = most
        self._scripts: OrderedDict[bytes, _Script] = OrderedDict()

    def note(self, command: Command) -> bool:
        """Remember the text that comes with a command, if one does. Whether the script or function that it runs may
        change what Redis does not tell: its text, as far as it is known, names such a command, or an argument does."""
        script = self._script_of(command)
        if script is not None and script.names_untold:
            return True
        return any(_UNTOLD.fullmatch(each) for each in command.argv[1:])

    def of(self, command: Command, table: Table) -> set[bytes] | None:
        """The keys that the script which this command runs can use; None if it may use others."""
        script = self._script_of(command)
        calls = None if script is None else script.calls(table)
        if calls is None:
            return None
        inputs = inputs_of(command)
        called = []
        for call in calls:
            if call.chooses_subcommand:
                return None
            each = call.called(inputs)
            about_its_keys = cache_role(each.spec) in _ABOUT_THEIR_KEYS and each.spec.state is ConnectionState.POOL
            if each.undeclared or not about_its_keys:
                return None
            called.append(each)
        try:
            return {key.name for key in (*command.keys, *undeclared_keys(called))}
        except KeysUnknownError:
            return None

    def _script_of(self, command: Command) -> _Script | None:
        use = SCRIPT_USES.get(command.spec.name)
        argv = command.argv
        if use == "sha" and len(argv) > 1:
            sha = argv[1].lower()
            if sha in self._scripts:
                self._scripts.move_to_end(sha)
            return self._scripts.get(sha)
        place = _TEXT_AT.get(use or "", 0)
        if not 0 < place < len(argv) or not command.length(place) == len(argv[place]) <= LONGEST:
            return None
        sha = sha_of(argv[place])
        script = self._scripts.get(sha)
        if script is None:
            script = self._scripts[sha] = _Script(argv[place])
            self._left -= script.size
            while self._left < 0:
                _, oldest = self._scripts.popitem(last=False)
                self._left += oldest.size
        else:
            self._scripts.move_to_end(sha)
        return script
