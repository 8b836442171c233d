# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""The operations of a plan: rules add them, and processes send them to each other. ``plan`` runs them."""

from array import array

from proxy.hotpath.plan.key_checks import KeyProgram
from proxy.hotpath.plan.name_checks import NameProgram
from proxy.hotpath.plan.replica_reads import ReplicaReads
from proxy.hotpath.plan.reply_edits import ReplyProgram
from proxy.hotpath.plan.request_edit import RequestEdit
from proxy.hotpath.plan.schema_checks import EntryProgram
from proxy.hotpath.plan.value_checks import ValueProgram

OP_JUDGE = 1
OP_COUNT = 2
OP_NAMES = 4
OP_EDIT = 8
OP_LIMIT = 16
OP_ENTRIES = 32
OP_EDIT_BY_ENTRY = 64
OP_REPLICA = 128
OP_VALUES = 256
OP_PREFIX = 512
OP_SOME_KEYS = 1024
OP_EDIT_REPLY = 2048
OP_ONE_SLOT = 4096
OP_CHANGES = OP_EDIT | OP_EDIT_BY_ENTRY | OP_PREFIX
"""These change requests."""
OP_KEYS = OP_COUNT | OP_NAMES | OP_ENTRIES | OP_REPLICA | OP_PREFIX | OP_SOME_KEYS | OP_EDIT_REPLY | OP_ONE_SLOT
"""These look at keys."""


class PlanOperations:
    """The operations of every command id below ``commands``; built by a policy's rules, then only read.

    ``changed`` counts the requests that the plan has changed or refused by itself: one counter for each command id, and
    behind them those of ``add_counter``. ``token_sets`` has the numbers of the client's token sets that a command is
    paid from; whoever runs the plan sees to that, as they are the client's. ``replica_reads`` has the keys for which
    replicas may be asked. With ``prefixes``, the clients are a tenant's.

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
        self.key_programs: list[list[KeyProgram]] = []
        self.key_programs_of = array("H", bytes(2 * commands))
        self.reply_programs: list[list[ReplyProgram]] = []
        self.reply_programs_of = array("H", bytes(2 * commands))
        self.edits_by_entry: list[list[RequestEdit | None]] = []
        self.edits_by_entry_of = array("H", bytes(2 * commands))
        self.changed = array("q", bytes(8 * commands))
        self.spends = False
        self.token_sets = [b""]
        self.token_sets_of = array("H", bytes(2 * commands))
        self.replica_reads: ReplicaReads | None = None
        self.prefixes = False

    def judge_always(self, command_id: int) -> None:
        """No request of this command passes without ``judge``."""
        self.operations[command_id] |= OP_JUDGE

    def keep_to_tenant(self, prefixed: bytes) -> None:
        """The clients are those of a tenant. Of the commands with a 1 in ``prefixed``, each key gets the prefix; all
        others are judged."""
        self.prefixes = True
        # Other plans may have the same arrays.
        self.operations, self.error_of = array("H", self.operations), array("H", self.error_of)
        for command_id, may in enumerate(prefixed):
            self.operations[command_id] = self.operations[command_id] | OP_PREFIX if may else OP_JUDGE
            self.error_of[command_id] *= may

    def count_keys(self, command_id: int) -> None:
        """Count each key of the requests that go on."""
        self.operations[command_id] |= OP_COUNT

    def check_names(self, command_id: int, program: int) -> None:
        """Every key of the command that is accessed as this one of the ``programs`` says must pass it, or the request
        is judged."""
        self.operations[command_id] |= OP_NAMES
        self.program_of[command_id] = program

    def check_slots(self, command_id: int) -> None:
        """All keys of the command must surely have one hash slot, or the request is judged."""
        self.operations[command_id] |= OP_ONE_SLOT

    def limit(self, command_id: int, size: int, arguments: int) -> None:
        """Judge a request of more than ``size`` bytes on the wire, or of more arguments, the name included."""
        self.operations[command_id] |= OP_LIMIT
        self.most_bytes[command_id] = size
        self.most_arguments[command_id] = arguments

    def check_entries(self, command_id: int, program: int) -> None:
        """Every key of the command must let it pass, by this one of the ``entry_programs`` and the entry that owns the
        key, or the request is judged."""
        self.operations[command_id] |= OP_ENTRIES
        self.entry_program_of[command_id] = program

    def check_values(self, command_id: int, program: int) -> None:
        """The values of the command must pass this one of the ``value_programs``, or the request is judged."""
        self.operations[command_id] |= OP_VALUES
        self.value_program_of[command_id] = program

    def check_some_keys(self, command_id: int, programs: list[KeyProgram]) -> None:
        """The command must pass all of these, or the request is judged."""
        self.operations[command_id] |= OP_SOME_KEYS
        self.key_programs_of[command_id] = len(self.key_programs)
        self.key_programs.append(programs)

    def edit_replies(self, command_id: int, programs: list[ReplyProgram]) -> None:
        """These edit the reply to the command, by its keys. The list and its programs are for this command alone."""
        self.operations[command_id] |= OP_EDIT_REPLY
        self.reply_programs_of[command_id] = len(self.reply_programs)
        self.reply_programs.append(programs)

    def reply_editors(self, command_id: int) -> list[ReplyProgram]:
        """What may edit the reply to the command."""
        edits = self.operations[command_id] & OP_EDIT_REPLY
        return self.reply_programs[self.reply_programs_of[command_id]] if edits else []

    def edit_by_entry(self, command_id: int, edits: list[RequestEdit | None]) -> None:
        """Edit as the owner of the only key has it in its place (0: no owner), as ``edit`` does; None: not at all.

        The command must have a program of ``check_entries``, which finds the owner. Without exactly one key it is
        judged. The list is kept as it is, and plans may share it.
        """
        self.operations[command_id] |= OP_EDIT_BY_ENTRY
        self.edits_by_entry_of[command_id] = len(self.edits_by_entry)
        self.edits_by_entry.append(edits)

    def edit(self, command_id: int, edit: RequestEdit) -> None:
        """Edit each request that goes on; where the edit cannot tell what to do, the request is judged."""
        self.operations[command_id] |= OP_EDIT
        self.edit_of[command_id] = len(self.edits)
        self.edits.append(edit)

    def add_counter(self) -> int:
        """The number of one more counter of ``changed``, for a command that several rules edit."""
        self.changed = array("q", bytes(8 * (len(self.changed) + 1)))  # nothing is counted yet
        return len(self.changed) - 1

    def refuse(self, command_id: int, error: bytes) -> None:
        """Answer every request of this command with ``error``, a whole reply: its judgement is known."""
        self.operations[command_id] |= OP_JUDGE
        self.error_of[command_id] = len(self.errors)
        self.errors.append(error)

    def refuses(self, command_id: int) -> bool:
        """Whether every request of this command is refused."""
        return self.error_of[command_id] > 0

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
        self.operations[command_id] |= OP_REPLICA
