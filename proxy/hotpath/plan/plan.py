# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""A policy as the hot path runs it: a few closed operations for each command.

Each command id has a number of operations; 0 means that no rule touches the command and nothing counts its keys, and
costs one look-up. ``decide`` answers for one scanned request:

- PASS: forward the bytes as they are;
- PREFIX: forward them with the prefix of the client's tenant before keys, which are counted with it;
- EDIT: forward them as the ``editor`` writes them: with a default TTL behind, or under another name, and a prefix;
- REFUSE: answer ``error``, whatever the arguments are and whoever sends them;
- EDIT_REPLY: forward them as they are, and let ``reply_edit`` have the reply;
- JUDGE: only a rule's own ``judge`` can tell. Everything else that a rule would refuse, warn of or count ends here, so
  this file holds no decision that ``judge`` does not confirm: it only recognises what is surely so.

Keys are checked in one pass over each, by a program that joins all naming rules for the command
(``proxy.hotpath.plan.name_checks``). Where the policy has a schema, the pass also finds the entry that owns the key,
for all rules about the schema (``proxy.hotpath.plan.schema_checks``); edits
(``proxy.hotpath.plan.request_edit``) may depend on that entry. Keys are counted here too, once the request is known to
go on.

Limits on sizes need no look at the arguments: none of them is larger than the request, and it has no more than so many.
Formats of values need two bytes of each (``proxy.hotpath.plan.value_checks``). Both together tell which requests are
none of a rule's although they have one of its keys (``proxy.hotpath.plan.key_checks``).
"""

from array import array

from proxy.commands.keys import KeyFinder
from proxy.hotpath.counting.counters import Counters
from proxy.hotpath.plan.hash_tags import one_hashed_part
from proxy.hotpath.plan.operations import (
    OP_CHANGES,
    OP_COUNT,
    OP_EDIT,
    OP_EDIT_BY_ENTRY,
    OP_EDIT_REPLY,
    OP_ENTRIES,
    OP_JUDGE,
    OP_KEYS,
    OP_LIMIT,
    OP_NAMES,
    OP_ONE_SLOT,
    OP_PREFIX,
    OP_REPLICA,
    OP_SOME_KEYS,
    OP_VALUES,
    PlanOperations,
)
from proxy.hotpath.plan.replica_reads import MIXED, UNTOLD
from proxy.hotpath.plan.request_edit import RequestEdit, RequestEditor
from proxy.hotpath.upstream.splice import Splice
from proxy.wire.request import Request

# Under two names each: C integers in here, Python's for everybody else.
_PASS = 0
_EDIT = 1
_JUDGE = 2
_REFUSE = 3
_PREFIX = 4
_EDIT_REPLY = 5
PASS, EDIT, JUDGE, REFUSE, PREFIX, EDIT_REPLY = _PASS, _EDIT, _JUDGE, _REFUSE, _PREFIX, _EDIT_REPLY

_UNSOUGHT = -10
UNSOUGHT = _UNSOUGHT
"""In place of a number of keys: nobody has looked for them yet."""


_WRITES = 2
READS, WRITES = 1, _WRITES
_NAME = Splice()  # of a tenant's key in Redis


class Plan(PlanOperations):
    """Decides about one request at a time.

    ``terms`` has the place of the terms for the request that was decided last, or why none; ``several`` says whether it
    has several keys. Whoever knows whether its client reads from replicas counts it by ``count_terms``. Of a request
    that goes on, the key finder holds as many keys as ``found`` says, or none (UNSOUGHT). The ``editor`` has the prefix
    of the tenant whose request it is, if the clients are a tenant's.
    """

    def __init__(self, commands: int) -> None:
        super().__init__(commands)
        self.editor = RequestEditor()
        self.error = b""
        self.reply_edit: object = None
        self.terms = UNTOLD
        self.several = False
        self.found = _UNSOUGHT
        self._counted = UNTOLD

    @classmethod
    def judging(cls, commands: int) -> "Plan":
        """A plan with which the rules judge every request."""
        plan = cls(commands)
        plan.operations = array("H", [OP_JUDGE]) * commands
        return plan

    def judges(self, command_id: int) -> bool:
        """Whether every request of this command is refused or judged."""
        return self.operations[command_id] & OP_JUDGE != 0

    def renames_at_most(self, command_id: int) -> bool:
        """Whether requests of this command leave with all their arguments, and no others."""
        operation = self.operations[command_id]
        if operation & (OP_EDIT_BY_ENTRY | OP_PREFIX | OP_EDIT_REPLY):
            return False
        return not operation & OP_EDIT or not self.edits[self.edit_of[command_id]].appends()

    def asks_replicas(self, command_id: int) -> bool:
        """Whether some requests of the command have terms."""
        return self.operations[command_id] & OP_REPLICA != 0

    def decide(self, command_id: int, request: Request, data: bytes, keys: KeyFinder, counters: Counters) -> int:
        """What to do; the ``editor`` or ``error`` says how, and ``terms`` by which terms a replica may answer."""
        return self.decide_by(_UNSOUGHT, False, command_id, request, data, keys, counters)

    def look(self, found: int, command_id: int, request: Request, data: bytes, keys: KeyFinder) -> int:
        """Find the ``terms`` of a request before it is decided, for whoever may hold it back. Nothing is counted.

        ``keys`` holds so many of its keys as were ``found`` before, or none (UNSOUGHT). Returns how many it holds then.
        """
        self.terms = self._counted = UNTOLD
        operation = self.operations[command_id]
        if operation & OP_JUDGE or not operation & OP_REPLICA:
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
        if operation & OP_JUDGE:
            if not self.refuses(command_id):
                return _JUDGE
            self.error = self.errors[self.error_of[command_id]]
            self.changed[command_id] += 1
            return _REFUSE
        found = self._check(found, command_id, operation, request, data, keys)
        if found < 0:
            return _JUDGE
        if operation & OP_KEYS:
            self.found = found
        if operation & OP_PREFIX and not self.editor.may_prefix(keys, found):
            return _JUDGE
        outcome = _PASS
        if operation & OP_EDIT_REPLY and self._edits_reply(command_id, request, data, keys, found):
            # Whoever has the request sent counts its keys.
            self.terms = self._counted = UNTOLD
            return _JUDGE if operation & OP_CHANGES else _EDIT_REPLY
        if operation & (OP_EDIT | OP_EDIT_BY_ENTRY):
            outcome = self._edit(command_id, operation, request, data, found)
            if outcome == _JUDGE:
                return _JUDGE
        elif operation & OP_PREFIX:
            self.editor.forget()
        if operation & OP_PREFIX and outcome == _PASS:
            outcome = _PREFIX
        if operation & OP_REPLICA:
            if outcome == _EDIT:
                self.terms = self._counted = UNTOLD
            elif not looked:
                self.find_terms(request, data, keys, found)
            if self.terms == MIXED:
                return _JUDGE
        if operation & OP_COUNT:
            self.count(request, data, keys, found, counters)
        return outcome

    def passes(self, command_id: int, request: Request, data: bytes, keys: KeyFinder) -> bool:
        """Whether the request goes on as it is, or with the prefix of the client's tenant. Nothing is counted."""
        operation = self.operations[command_id]
        if operation & (OP_JUDGE | OP_EDIT | OP_EDIT_BY_ENTRY):
            return False
        if operation == 0:
            return True
        found = self._check(_UNSOUGHT, command_id, operation, request, data, keys)
        if operation & OP_PREFIX and (found < 0 or not self.editor.may_prefix(keys, found)):
            return False
        if found > 0 and operation & OP_EDIT_REPLY and self._edits_reply(command_id, request, data, keys, found):
            return False
        if found > 0 and operation & OP_REPLICA and self.replica_reads is not None:
            return self.replica_reads.place(request, data, keys, found) != MIXED
        return found >= 0

    def leaves_to_rules(self, command_id: int, request: Request, data: bytes, keys: KeyFinder) -> bool:
        """Whether only the rules can tell what to do about the request. Nothing is counted."""
        operation = self.operations[command_id]
        if operation & OP_JUDGE:
            return not self.refuses(command_id)
        if operation == 0:
            return False
        found = self._check(_UNSOUGHT, command_id, operation, request, data, keys)
        if found < 0 or (operation & OP_PREFIX and not self.editor.may_prefix(keys, found)):
            return True
        if operation & (OP_EDIT | OP_EDIT_BY_ENTRY):
            return self._apply_edit(command_id, operation, request, data, found) < 0
        return False

    def _check(
        self, found: int, command_id: int, operation: int, request: Request, data: bytes, keys: KeyFinder
    ) -> int:
        # How many keys the request has, if the operation looks at them; below zero if it must be judged.
        if operation & OP_LIMIT and (
            request.end - request.start > self.most_bytes[command_id] or request.argc > self.most_arguments[command_id]
        ):
            return -1
        if operation & OP_VALUES:
            values = self.value_programs[self.value_program_of[command_id]]
            assert values is not None
            if not values.passes(request, data):
                return -1
        if not operation & OP_KEYS:
            return 0
        if found == _UNSOUGHT:
            found = keys.find(command_id, request)
        if found < 0:
            return -1
        if operation & OP_NAMES:
            names = self.programs[self.program_of[command_id]]
            assert names is not None
            if not names.passes(request, data, keys, found):
                return -1
        if operation & OP_ONE_SLOT and found > 1 and not one_hashed_part(request, data, keys, found):
            return -1
        if operation & OP_ENTRIES:
            entries = self.entry_programs[self.entry_program_of[command_id]]
            assert entries is not None
            if not entries.passes(request, data, keys, found):
                return -1
        if operation & OP_SOME_KEYS:
            for program in self.key_programs[self.key_programs_of[command_id]]:
                if not program.passes(request, data, keys, found):
                    return -1
        return found

    def _edits_reply(self, command_id: int, request: Request, data: bytes, keys: KeyFinder, found: int) -> bool:
        # Whether ``reply_edit`` is for the reply to this request. Patterns of rules that edit replies do not overlap.
        for program in self.reply_programs[self.reply_programs_of[command_id]]:
            if not program.names.passes(request, data, keys, found):
                self.reply_edit = program.edit
                return True
        return False

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
        return self.operations[command_id] & OP_COUNT != 0

    def may_edit(self, command_id: int) -> bool:
        """Whether a request of this command may go on as another one; that with a prefix is none."""
        return self.operations[command_id] & (OP_EDIT | OP_EDIT_BY_ENTRY) != 0

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
        if operation & OP_EDIT_BY_ENTRY and (found != 1 or not operation & OP_ENTRIES):
            return -1
        return self.editor.apply(self._edit_of(command_id, operation), request, data)

    def _edit_of(self, command_id: int, operation: int) -> RequestEdit | None:
        # By the owner of the only key, if the edit depends on it: the entries were checked before.
        if not operation & OP_EDIT_BY_ENTRY:
            return self.edits[self.edit_of[command_id]]
        program = self.entry_programs[self.entry_program_of[command_id]]
        return self.edits_by_entry[self.edits_by_entry_of[command_id]][program.owner + 1]

    def count(self, request: Request, data: bytes, keys: KeyFinder, found: int, counters: Counters) -> None:
        """Count the ``found`` keys that ``keys`` holds."""
        added = 0
        if self.prefixes:
            added = len(self.editor.prefix)
            _NAME.cut(0)
            _NAME.put(self.editor.prefix, 0, added)
        i = 0
        while i < found:
            index = keys.indexes[i]
            if added > 0:
                _NAME.put_behind(added, data, request.starts[index], request.ends[index])
                counters.add(_NAME.target, 0, _NAME.size, keys.access[i] == _WRITES)
            else:
                counters.add(data, request.starts[index], request.ends[index], keys.access[i] == _WRITES)
            i += 1
