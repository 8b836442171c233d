"""Keys of several hash slots are refused, also on a Redis without cluster mode.

A cluster accepts a command only if all its keys are in one hash slot, and a transaction only if all keys of all its
commands are. An application that follows this rule can move to a cluster: keys that belong together have the same hash
tag, ``cart:{42}`` and ``cart:{42}:items``. Watched keys count as keys of the transaction.

SORT looks up keys by patterns. A cluster (Redis 7.4, Valkey 8) accepts a pattern only if its hash tag is before the
``*`` and equals that of the sorted key.

The slot of a tenant's key is that of its name in Redis, with the prefix: a prefix has no hash tag.
"""

from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.commands.slots import slot_of
from proxy.commands.sort_patterns import SORTS, beginnings_of
from proxy.commands.table import ConnectionState, Spec
from proxy.rules.context import NO_SLOT, Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.lowering import Lowering
from proxy.rules.refusals import Refusals
from proxy.rules.rule import Binding, InScripts, Needs, Rule, RuleSettings, Wording
from proxy.rules.verdict import PASS, Verdict


@dataclass(frozen=True, slots=True)
class OneSlotSettings(RuleSettings):
    """The rule checks transactions; with `commands`, also each single command."""

    commands: bool = True

    @property
    def is_about_names(self) -> bool:
        return True

    @property
    def beyond_acl(self) -> str:
        return "an ACL knows no slots"

    def bind(self, name: str, wording: Wording, binding: Binding) -> "OneSlot":
        return OneSlot(name, self, Refusals(name, wording, binding))


class OneSlot(Rule):
    """Refuses commands with keys in several slots, or in another slot than their transaction."""

    needs = Needs(slots=True, in_scripts=InScripts.ALL_KEYS)

    def __init__(self, name: str, settings: OneSlotSettings, refusals: Refusals) -> None:
        self.name = name
        self._commands = settings.commands
        self._refusals = refusals

    def touches(self, spec: Spec) -> bool:
        """Commands with keys."""
        return spec.may_have_keys

    def judge(self, command: Command, context: Context) -> Verdict:
        """Refuse for the first key in another slot than the keys before it."""
        transaction = context.in_transaction or command.spec.state is ConnectionState.WATCH
        if not (transaction or self._commands):
            return PASS
        expected = context.slot if transaction else NO_SLOT
        before = "of the transaction" if expected != NO_SLOT else "before it"
        for key in command.keys:
            slot = slot_of(context.tenant + key.name)
            if expected == NO_SLOT:
                expected = slot
            elif slot != expected:
                fault = f"is in slot {slot}, and the keys {before} are in slot {expected}"
                return self._refuse(command, key.index, "key", fault)
        for index, beginning in beginnings_of(command):
            if not _has_tag(beginning) or slot_of(beginning) != expected:
                return self._refuse(command, index, "pattern", "may lead to keys of another slot")
        return PASS

    def _refuse(self, command: Command, index: int, what: str, fault: str) -> Verdict:
        instead = "give keys that belong together the same hash tag, such as cart:{42}:items"
        return self._refusals.of(f"{self._refusals.key(command, index, what)} {fault}", instead, command)

    def judged_by(self, spec: Spec) -> JudgedBy:
        """Names, and the patterns of SORT; in transactions the commands before, so this is about single commands."""
        if not self._commands or spec.state is ConnectionState.WATCH:
            return JudgedBy.STATE
        return JudgedBy.DATA if spec.name in SORTS else JudgedBy.NAMES

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """Keys with the same hash tag pass, except of SORT and WATCH; inside a transaction the session judges every
        command."""
        if spec.state is ConnectionState.WATCH or (self._commands and spec.name in SORTS):
            lowering.judge()
        elif self._commands and not _has_one_key(spec):
            lowering.check_slots()


def _has_one_key(spec: Spec) -> bool:
    return len(spec.key_specs) == 1 and spec.key_specs[0].find == "range" and spec.key_specs[0].last == 0


def _has_tag(beginning: bytes) -> bool:
    """Whether the beginning of a name has a whole hash tag."""
    tag, closed, _ = beginning.partition(b"{")[2].partition(b"}")
    return bool(tag and closed)
