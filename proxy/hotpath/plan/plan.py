# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""A policy as the hot path runs it: a few closed operations for each command.

Each command id has a number of operations; 0 means that no rule touches the command and nothing counts its keys, and
costs one look-up. ``decide`` answers for one scanned request:

- PASS: forward the bytes as they are;
- PREFIX: forward them with the prefix of the client's tenant before keys, which are counted with it;
- EDIT: forward them as the ``editor`` writes them: with a default TTL behind, or under another name, and a prefix;
- REFUSE: answer ``error``, whatever the arguments are and whoever sends them;
- JUDGE: only a rule's own ``judge`` can tell. Everything else that a rule would refuse, warn of or count ends here, so
  this file holds no decision that ``judge`` does not confirm: it only recognises what is surely so.

Keys are checked in one pass over each, by a program that joins all naming rules for the command
(``proxy.hotpath.plan.name_checks``). Where the policy has a schema, the pass also finds the entry that owns the key,
for all rules about the schema (``proxy.hotpath.plan.schema_checks``); edits
(``proxy.hotpath.plan.request_edit``) may depend on that entry. Keys are counted here too, once the request is known to
go on.

Limits on sizes need no look at the arguments: none of them is larger than the request, and it has no more than so many.
Formats of values need two bytes of each (``proxy.hotpath.plan.value_checks``).
"""

from array import array

from proxy.commands.keys import KeyFinder
from proxy.hotpath.counting.counters import Counters
from proxy.hotpath.plan.name_checks import NameProgram
from proxy.hotpath.plan.replica_reads import MIXED, UNTOLD, ReplicaReads
from proxy.hotpath.plan.request_edit import RequestEdit, RequestEditor
from proxy.hotpath.plan.schema_checks import EntryProgram
from proxy.hotpath.plan.value_checks import ValueProgram
from proxy.wire.request import Request

# Under two names each: C integers in here, Python's for everybody else.
_PASS = 0
_EDIT = 1
_JUDGE = 2
_REFUSE = 3
_PREFIX = 4
PASS, EDIT, JUDGE, REFUSE, PREFIX = _PASS, _EDIT, _JUDGE, _REFUSE, _PREFIX

_UNSOUGHT = -10
UNSOUGHT = _UNSOUGHT
"""In place of a number of keys: nobody has looked for them yet."""

_OP_JUDGE = 1
_OP_COUNT = 2
_OP_NAMES = 4
_OP_EDIT = 8
_OP_LIMIT = 16
_OP_ENTRIES = 32
_OP_EDIT_BY_ENTRY = 64
_OP_REPLICA = 128
_OP_VALUES = 256
_OP_PREFIX = 512
_OP_KEYS = _OP_COUNT | _OP_NAMES | _OP_ENTRIES | _OP_REPLICA | _OP_PREFIX

_WRITES = 2
READS, WRITES = 1, _WRITES


class Plan:
    """The operations of every command id below ``commands``; built by a policy's rules, then only read.

    ``changed`` counts the requests that the plan has changed or refused by itself: one counter for each command id, and
    behind them those of ``add_counter``. ``token_sets`` has the numbers of the client's token sets that a command is
    paid from; whoever runs the plan sees to that, as they are the client's. ``replica_reads`` has the keys for which
    replicas may be asked, and ``terms`` the place of the terms for the request that was decided last, or why none;
    ``several`` says whether it has several keys. Whoever knows whether its client reads from replicas counts it by
    ``count_terms``. Of a request that goes on, the key finder holds as many keys as ``found`` says, or none (UNSOUGHT).
    With ``prefixes``, the clients are a tenant's, and the ``editor`` has the prefix of the one whose request it is.

    Each ``..._of`` has a place in the list beside it for every command id. So a plan refers to few objects, each of
    which the garbage collector follows, while no client is served: a worker may hold hundreds of plans.
    """

    def __init__(self, commands: int) -> None:
        self.operations = array("H", bytes(2 * commands))
        self.programs: list[NameProgram] = []
        self.program_of = array("H", bytes(2 * commands))
        self.edits: list[RequestEdit] = []
        self.edit_of = array("H", bytes(2 * commands))
        self.errors = [b""]
        self.error_of = array("H", bytes(2 * commands))
        self.most_bytes = array("q", bytes(8 * commands))
        self.most_arguments = array("q", bytes(8 * commands))
        self.entry_programs: list[EntryProgram] = []
        self.entry_program_of = array("H", bytes(2 * commands))
        self.value_programs: list[ValueProgram] = []
        self.value_program_of = array("H", bytes(2 * commands))
        self.edits_by_entry: list[list[RequestEdit | None]] = []
        self.edits_by_entry_of = array("H", bytes(2 * commands))
        self.editor = RequestEditor()
        self.error = b""
        self.changed = array("q", bytes(8 * commands))
        self.spends = False
        self.token_sets = [b""]
        self.token_sets_of = array("H", bytes(2 * commands))
        self.replica_reads: ReplicaReads | None = None
        self.terms = UNTOLD
        self.several = False
        self.prefixes = False
        self.found = _UNSOUGHT
        self._counted = UNTOLD

    @classmethod
    def judging(cls, commands: int) -> "Plan":
        """A plan with which the rules judge every request."""
        plan = cls(commands)
        plan.operations = array("H", [_OP_JUDGE]) * commands
        return plan

    def judge_always(self, command_id: int) -> None:
        """No request of this command passes without ``judge``."""
        self.operations[command_id] |= _OP_JUDGE

    def keep_to_tenant(self, prefixed: bytes) -> None:
        """The clients are those of a tenant. Of the commands with a 1 in ``prefixed``, each key gets the prefix; all
        others are judged."""
        self.prefixes = True
        # Other plans may have the same arrays.
        self.operations, self.error_of = array("H", self.operations), array("H", self.error_of)
        for command_id, may in enumerate(prefixed):
            self.operations[command_id] = self.operations[command_id] | _OP_PREFIX if may else _OP_JUDGE
            self.error_of[command_id] *= may

    def count_keys(self, command_id: int) -> None:
        """Count each key of the requests that go on."""
        self.operations[command_id] |= _OP_COUNT

    def check_names(self, command_id: int, program: int) -> None:
        """Every key of the command that is accessed as this one of the ``programs`` says must pass it, or the request
        is judged."""
        self.operations[command_id] |= _OP_NAMES
        self.program_of[command_id] = program

    def limit(self, command_id: int, size: int, arguments: int) -> None:
        """Judge a request of more than ``size`` bytes on the wire, or of more arguments, the name included."""
        self.operations[command_id] |= _OP_LIMIT
        self.most_bytes[command_id] = size
        self.most_arguments[command_id] = arguments

    def check_entries(self, command_id: int, program: int) -> None:
        """Every key of the command must let it pass, by this one of the ``entry_programs`` and the entry that owns the
        key, or the request is judged."""
        self.operations[command_id] |= _OP_ENTRIES
        self.entry_program_of[command_id] = program

    def check_values(self, command_id: int, program: int) -> None:
        """The values of the command must pass this one of the ``value_programs``, or the request is judged."""
        self.operations[command_id] |= _OP_VALUES
        self.value_program_of[command_id] = program

    def edit_by_entry(self, command_id: int, edits: list[RequestEdit | None]) -> None:
        """Edit as the owner of the only key has it in its place (0: no owner), as ``edit`` does; None: not at all.

        The command must have a program of ``check_entries``, which finds the owner. Without exactly one key it is
        judged. The list is kept as it is, and plans may share it.
        """
        self.operations[command_id] |= _OP_EDIT_BY_ENTRY
        self.edits_by_entry_of[command_id] = len(self.edits_by_entry)
        self.edits_by_entry.append(edits)

    def edit(self, command_id: int, edit: RequestEdit) -> None:
        """Edit each request that goes on; where the edit cannot tell what to do, the request is judged."""
        self.operations[command_id] |= _OP_EDIT
        self.edit_of[command_id] = len(self.edits)
        self.edits.append(edit)

    def add_counter(self) -> int:
        """The number of one more counter of ``changed``, for a command that several rules edit."""
        self.changed = array("q", bytes(8 * (len(self.changed) + 1)))  # nothing is counted yet
        return len(self.changed) - 1

    def refuse(self, command_id: int, error: bytes) -> None:
        """Answer every request of this command with ``error``, a whole reply: its judgement is known."""
        self.operations[command_id] |= _OP_JUDGE
        self.error_of[command_id] = len(self.errors)
        self.errors.append(error)

    def judges(self, command_id: int) -> bool:
        """Whether every request of this command is refused or judged."""
        return self.operations[command_id] & _OP_JUDGE != 0

    def refuses(self, command_id: int) -> bool:
        """Whether every request of this command is refused."""
        return self.error_of[command_id] > 0

    def renames_at_most(self, command_id: int) -> bool:
        """Whether requests of this command leave with all their arguments, and no others."""
        operation = self.operations[command_id]
        if operation & (_OP_EDIT_BY_ENTRY | _OP_PREFIX):
            return False
        return not operation & _OP_EDIT or not self.edits[self.edit_of[command_id]].appends()

    def spend(self, command_id: int, token_sets: bytes) -> None:
        """Each request of the command is paid for from the client's token sets of these numbers, or judged.

        Equal numbers are the same object, by which a run knows that it goes on with the same token sets.
        """
        self.spends = True
        if token_sets not in self.token_sets:
            self.token_sets.append(token_sets)
        self.token_sets_of[command_id] = self.token_sets.index(token_sets)

    def read_from_replicas(self, command_id: int) -> None:
        """Find the terms in ``replica_reads`` of the requests that go on as they are."""
        self.operations[command_id] |= _OP_REPLICA

    def asks_replicas(self, command_id: int) -> bool:
        """Whether some requests of the command have terms."""
        return self.operations[command_id] & _OP_REPLICA != 0

    def decide(self, command_id: int, request: Request, data: bytes, keys: KeyFinder, counters: Counters) -> int:
        """What to do; the ``editor`` or ``error`` says how, and ``terms`` by which terms a replica may answer."""
        return self.decide_by(_UNSOUGHT, False, command_id, request, data, keys, counters)

    def look(self, found: int, command_id: int, request: Request, data: bytes, keys: KeyFinder) -> int:
        """Find the ``terms`` of a request before it is decided, for whoever may hold it back. Nothing is counted.

        ``keys`` holds so many of its keys as were ``found`` before, or none (UNSOUGHT). Returns how many it holds then.
        """
        self.terms = self._counted = UNTOLD
        operation = self.operations[command_id]
        if operation & _OP_JUDGE or not operation & _OP_REPLICA:
            return found
        if found == _UNSOUGHT:
            found = keys.find(command_id, request)
        self.find_terms(request, data, keys, found)
        return found

    def decide_by(
        self,
        found: int,
        looked: bool,
        command_id: int,
        request: Request,
        data: bytes,
        keys: KeyFinder,
        counters: Counters,
    ) -> int:
        """The same for a request whose ``found`` keys ``keys`` holds already; UNSOUGHT if not. ``looked``: ``look`` was
        called before."""
        operation = self.operations[command_id]
        if not looked:
            self.terms = self._counted = UNTOLD
        self.found = found
        if operation == 0:
            return _PASS
        if operation & _OP_JUDGE:
            if not self.refuses(command_id):
                return _JUDGE
            self.error = self.errors[self.error_of[command_id]]
            self.changed[command_id] += 1
            return _REFUSE
        found = self._check(found, command_id, operation, request, data, keys)
        if found < 0:
            return _JUDGE
        if operation & _OP_KEYS:
            self.found = found
        if operation & _OP_PREFIX and not self.editor.may_prefix(keys, found):
            return _JUDGE
        outcome = _PASS
        if operation & (_OP_EDIT | _OP_EDIT_BY_ENTRY):
            outcome = self._edit(command_id, operation, request, data, found)
            if outcome == _JUDGE:
                return _JUDGE
        elif operation & _OP_PREFIX:
            self.editor.apply(None, request, data)  # forgets the edit of another request
        if operation & _OP_PREFIX and outcome == _PASS:
            outcome = _PREFIX
        if operation & _OP_REPLICA:
            if outcome == _EDIT:
                self.terms = self._counted = UNTOLD
            elif not looked:
                self.find_terms(request, data, keys, found)
            if self.terms == MIXED:
                return _JUDGE
        if operation & _OP_COUNT:
            self.count(request, data, keys, found, counters)
        return outcome

    def passes(self, command_id: int, request: Request, data: bytes, keys: KeyFinder) -> bool:
        """Whether the request goes on as it is. Nothing is counted."""
        operation = self.operations[command_id]
        if operation & (_OP_JUDGE | _OP_EDIT | _OP_EDIT_BY_ENTRY | _OP_PREFIX):
            return False
        if operation == 0:
            return True
        found = self._check(_UNSOUGHT, command_id, operation, request, data, keys)
        if found > 0 and operation & _OP_REPLICA and self.replica_reads is not None:
            return self.replica_reads.place(request, data, keys, found) != MIXED
        return found >= 0

    def leaves_to_rules(self, command_id: int, request: Request, data: bytes, keys: KeyFinder) -> bool:
        """Whether only the rules can tell what to do about the request. Nothing is counted."""
        operation = self.operations[command_id]
        if operation & _OP_JUDGE:
            return not self.refuses(command_id)
        if operation == 0:
            return False
        found = self._check(_UNSOUGHT, command_id, operation, request, data, keys)
        if found < 0 or (operation & _OP_PREFIX and not self.editor.may_prefix(keys, found)):
            return True
        if operation & (_OP_EDIT | _OP_EDIT_BY_ENTRY):
            return self._apply_edit(command_id, operation, request, data, found) < 0
        return False

    def _check(
        self, found: int, command_id: int, operation: int, request: Request, data: bytes, keys: KeyFinder
    ) -> int:
        # How many keys the request has, if the operation looks at them; below zero if it must be judged.
        if operation & _OP_LIMIT and (
            request.end - request.start > self.most_bytes[command_id] or request.argc > self.most_arguments[command_id]
        ):
            return -1
        if operation & _OP_VALUES:
            values = self.value_programs[self.value_program_of[command_id]]
            assert values is not None
            if not values.passes(request, data):
                return -1
        if not operation & _OP_KEYS:
            return 0
        if found == _UNSOUGHT:
            found = keys.find(command_id, request)
        if found < 0:
            return -1
        if operation & _OP_NAMES:
            names = self.programs[self.program_of[command_id]]
            assert names is not None
            if not names.passes(request, data, keys, found):
                return -1
        if operation & _OP_ENTRIES:
            entries = self.entry_programs[self.entry_program_of[command_id]]
            assert entries is not None
            if not entries.passes(request, data, keys, found):
                return -1
        return found

    def find_terms(self, request: Request, data: bytes, keys: KeyFinder, found: int) -> None:
        """Find the ``terms`` for a request whose ``found`` keys ``keys`` holds."""
        reads = self.replica_reads
        assert reads is not None, "commands have this operation behind replica_reads"
        self.several = found > 1
        self._counted = reads.place(request, data, keys, found)
        self.terms = reads.in_force(self._counted)

    def count_terms(self) -> None:
        """Count the request whose terms were found last, if it has any."""
        reads = self.replica_reads
        if reads is not None and self._counted >= 0:
            self.changed[reads.counters[self._counted]] += 1

    def counts_keys(self, command_id: int) -> bool:
        """Whether keys of requests that go on are counted."""
        return self.operations[command_id] & _OP_COUNT != 0

    def may_edit(self, command_id: int) -> bool:
        """Whether a request of this command may go on as another one; that with a prefix is none."""
        return self.operations[command_id] & (_OP_EDIT | _OP_EDIT_BY_ENTRY) != 0

    def _edit(self, command_id: int, operation: int, request: Request, data: bytes, found: int) -> int:
        changed = self._apply_edit(command_id, operation, request, data, found)
        if changed < 0:
            return _JUDGE
        if changed == 0:
            return _PASS
        edit = self._edit_of(command_id, operation)
        while edit is not None:
            self.changed[edit.counter] += edit.applied
            edit = edit.then
        return _EDIT

    def _apply_edit(self, command_id: int, operation: int, request: Request, data: bytes, found: int) -> int:
        # What the editor says: below zero if the request must be judged, 0 if it goes on as it is.
        if operation & _OP_EDIT_BY_ENTRY and (found != 1 or not operation & _OP_ENTRIES):
            return -1
        return self.editor.apply(self._edit_of(command_id, operation), request, data)

    def _edit_of(self, command_id: int, operation: int) -> RequestEdit | None:
        # By the owner of the only key, if the edit depends on it: the entries were checked before.
        if not operation & _OP_EDIT_BY_ENTRY:
            return self.edits[self.edit_of[command_id]]
        program = self.entry_programs[self.entry_program_of[command_id]]
        return self.edits_by_entry[self.edits_by_entry_of[command_id]][program.owner + 1]

    def count(self, request: Request, data: bytes, keys: KeyFinder, found: int, counters: Counters) -> None:
        """Count the ``found`` keys that ``keys`` holds."""
        i = 0
        while i < found:
            index = keys.indexes[i]
            if self.prefixes:
                name = self.editor.prefix + data[request.starts[index] : request.ends[index]]
                counters.add(name, 0, len(name), keys.access[i] == _WRITES)
            else:
                counters.add(data, request.starts[index], request.ends[index], keys.access[i] == _WRITES)
            i += 1
