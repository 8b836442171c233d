"""Limits on one write: the bytes of each value, the members, and the bytes of the whole command.

The rule judges only the arguments, before anything is sent; a streamed value is judged by its announced length. A write
at an offset counts with the resulting length of the string: ``SETRANGE k 500000000 x`` is no small write. A payload of
RESTORE counts with its unpacked size, as its headers tell; if they do not, with the most that its bytes can unpack to.
"""

from dataclasses import dataclass

from proxy.commands.buckets import ends_bucket
from proxy.commands.command import Command
from proxy.commands.spec import Spec
from proxy.commands.values import RESTORES, Value, brings_values, members_of, values_of, writes_far
from proxy.rules.context import Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.lowering import Lowering
from proxy.rules.refusals import Refusals, over
from proxy.rules.rule import Binding, Rule, RuleSettings, Wording
from proxy.rules.stored import Fault, StoredFault, StoredKey
from proxy.rules.stored_sizes import ONE_WRITE, STRING, may_have_over, size_fault
from proxy.rules.verdict import PASS, Verdict

SMALLER = "keep it small: compress it, or split it over several keys"


@dataclass(frozen=True, slots=True)
class SizesSettings(RuleSettings):
    """The most bytes of a value, members of a write, and bytes of a whole command; None is no limit."""

    value: int | None = None
    members: int | None = None
    command: int | None = None

    @property
    def beyond_acl(self) -> str:
        return "an ACL knows no sizes"

    def bind(self, name: str, wording: Wording, binding: Binding) -> "Sizes":
        return Sizes(name, self, Refusals(name, wording, binding))


class Sizes(Rule):
    """One standard for the size of writes; the limit on whole commands applies to reads, too."""

    def __init__(self, name: str, settings: SizesSettings, refusals: Refusals) -> None:
        self.name = name
        self._settings = settings
        self._refusals = refusals

    def touches(self, spec: Spec) -> bool:
        """Commands that bring values; if whole commands are limited, all with arguments."""
        if self._settings.command is not None:
            return spec.arity < 0 or spec.arity > 1 or spec.id == 0
        return brings_values(spec.name)

    def judge(self, command: Command, _context: Context) -> Verdict:
        """Refuse for the first size over its limit, else PASS."""
        settings = self._settings
        if settings.value is not None:
            fault = _value_fault(command, settings.value, self._refusals)
            if fault:
                return self._refusals.of(fault, SMALLER, command)
        if settings.members is not None:
            members = members_of(command)
            if members > settings.members:
                fault = too_many_members(command, members, settings.members, self._refusals)
                return self._refusals.of(fault, f"write them in batches of at most {settings.members}", command)
        if settings.command is not None:
            size = sum(command.length(index) for index in range(len(command.argv)))
            if size > settings.command:
                fault = f"{command.name} has {size} bytes of arguments, {over(size, settings.command)}"
                return self._refusals.of(fault, "split it into several commands", command)
        return PASS

    def judge_stored(self, key: StoredKey) -> StoredFault | None:
        """The value of a string, as if one write had brought it. Nothing tells how large each value of a collection is;
        the other limits are about one command."""
        most = self._settings.value
        return None if most is None or key.type != STRING else size_fault(key, most, ONE_WRITE)

    @property
    def stored_faults(self) -> frozenset[Fault]:
        return frozenset() if self._settings.value is None else frozenset({Fault.TOO_LARGE})

    def members_wanted(self, key: StoredKey) -> bool:
        """The bytes of a string that takes more memory than its value may have bytes."""
        most = self._settings.value
        return most is not None and key.type == STRING and may_have_over(key, most)

    def judged_by(self, spec: Spec) -> JudgedBy:
        """Forms have sizes of values and numbers of members, not the size of a whole command with its keys."""
        if self._settings.command is not None:
            return JudgedBy.DATA if writes_far(spec.name) else JudgedBy.NAMES
        if ends_bucket(self._settings.value) and ends_bucket(self._settings.members):
            return JudgedBy.FORM
        return JudgedBy.DATA if writes_far(spec.name) else JudgedBy.NUMBERS

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """Small requests pass: no argument is larger than its request, and there are fewer members than arguments."""
        settings = self._settings
        if writes_far(spec.name) and (settings.value is not None or settings.members is not None):
            lowering.judge()
            return
        limits = [settings.command]
        if brings_values(spec.name):
            limits.append(settings.value)
            if settings.members is not None:
                lowering.limit(arguments=settings.members + 2)  # its name and a key come before them
        known = [limit for limit in limits if limit is not None]
        if known:
            lowering.limit(size=min(known))


def _value_fault(command: Command, most: int, refusals: Refusals) -> str:
    """The fault of the first value over ``most`` bytes; empty if there is none."""
    return next((oversize(command, value, most, refusals) for value in values_of(command) if value.length > most), "")


def oversize(command: Command, value: Value, most: int, refusals: Refusals) -> str:
    """The fault of a value of more than ``most`` bytes."""
    key = refusals.key(command, value.key)
    if command.spec.name in RESTORES:
        unpacks = f"unpacks to up to {value.length} bytes, {over(value.length, most)}"
        return f"the payload in argument {value.index}, for {key}, {unpacks}"
    if value.length > command.length(value.index):
        return f"the write at an offset makes {value.length} bytes of {key}, {over(value.length, most)}"
    return f"the value in argument {value.index}, for {key}, has {value.length} bytes, {over(value.length, most)}"


def too_many_members(command: Command, members: int, most: int, refusals: Refusals) -> str:
    """The fault of a write of more than ``most`` members."""
    key = refusals.key(command, command.keys[0].index) if command.keys else f"{command.name}'s key"
    return f"the command writes {members} members to {key}, {over(members, most)}"
