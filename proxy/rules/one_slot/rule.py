"""Keys of several hash slots, refused before a cluster has to: on a plain Redis too.

A cluster takes a command only if all its keys lie in one slot, and a transaction only if those of all its commands do.
An application that keeps to this can move to a cluster; how is always the same: the part of the names that belongs
together stands in braces, ``cart:{42}`` with ``cart:{42}:items``. Watched keys count as the transaction's.

SORT looks up keys by patterns. A cluster takes such a pattern, if at all (Redis 7.4, Valkey 8), where its hash tag
stands before the ``*`` and is that of the sorted key.
"""

from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.commands.slots import slot_of
from proxy.commands.sort_patterns import SORTS, beginnings_of
from proxy.commands.table import ConnectionState, Spec
from proxy.rules.context import NO_SLOT, Context
from proxy.rules.lowering import Lowering
from proxy.rules.refusals import Refusals
from proxy.rules.rule import Binding, InScripts, Needs, Rule, RuleSettings, Wording
from proxy.rules.verdict import PASS, Verdict


@dataclass(frozen=True, slots=True)
class OneSlotSettings(RuleSettings):
    """Transactions are always held to it; with `commands`, each command by itself is too."""

    commands: bool = True

    def bind(self, name: str, wording: Wording, binding: Binding) -> "OneSlot":
        return OneSlot(name, self, Refusals(name, wording, binding))


class OneSlot(Rule):
    """Refuses commands whose keys lie apart, and such as lie apart from their transaction's."""

    needs = Needs(slots=True, in_scripts=InScripts.ALL_KEYS)

    def __init__(self, name: str, settings: OneSlotSettings, refusals: Refusals) -> None:
        self.name = name
        self._commands = settings.commands
        self._refusals = refusals

    def touches(self, spec: Spec) -> bool:
        """Commands with keys."""
        return spec.may_have_keys

    def judge(self, command: Command, context: Context) -> Verdict:
        """Refuse for the first key that lies in another slot than those before it."""
        transaction = context.in_transaction or command.spec.state is ConnectionState.WATCH
        if not (transaction or self._commands):
            return PASS
        expected = context.slot if transaction else NO_SLOT
        before = "of the transaction" if expected != NO_SLOT else "before it"
        for key in command.keys:
            slot = slot_of(key.name)
            if expected == NO_SLOT:
                expected = slot
            elif slot != expected:
                fault = f"lies in slot {slot}, and the keys {before} in slot {expected}"
                return self._refuse(command, key.index, "key", fault)
        for index, beginning in beginnings_of(command):
            if not _has_tag(beginning) or slot_of(beginning) != expected:
                return self._refuse(command, index, "pattern", "may lead to keys of another slot")
        return PASS

    def _refuse(self, command: Command, index: int, what: str, fault: str) -> Verdict:
        instead = "name keys that belong together with one hash tag, such as cart:{42}:items"
        return self._refusals.of(f"{self._refusals.key(command, index, what)} {fault}", instead, command)

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """One key lies in one slot, unless it leads to others; inside a transaction a session judges every command."""
        if not self._commands and spec.state is not ConnectionState.WATCH:
            return
        if any(key_spec.find != "range" or key_spec.last != 0 for key_spec in spec.key_specs) or (
            len(spec.key_specs) > 1 or spec.state is ConnectionState.WATCH or spec.name in SORTS
        ):
            lowering.judge()


def _has_tag(beginning: bytes) -> bool:
    """Whether a name that begins like this has a whole hash tag already."""
    tag, closed, _ = beginning.partition(b"{")[2].partition(b"}")
    return bool(tag and closed)
