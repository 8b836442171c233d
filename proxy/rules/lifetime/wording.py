"""The errors of lifetime rules."""

from collections.abc import Sequence

from proxy.commands.command import Command
from proxy.commands.expiry import StatedExpiry
from proxy.commands.words import word_of
from proxy.rules.refusals import Refusals, shown_time
from proxy.rules.rule import Binding, Wording
from proxy.rules.verdict import Refuse
from proxy.schema.bounds import Bounds


class LifetimeWording:
    """The refusals of one rule, in its author's words if there are any."""

    def __init__(self, name: str, wording: Wording, binding: Binding) -> None:
        self._refusals = Refusals(name, wording, binding)
        self._schema = binding.schema

    def refuse_unstated(self, command: Command) -> Refuse:
        """A write that must state a TTL, and does not."""
        why = f"{command.name} states no TTL for {self._key(command)}"
        return self._refuse(command, why, "write it with SET and EX, or MSETEX and EX")

    def refuse_outside(
        self, command: Command, stated: StatedExpiry, found: Sequence[Bounds], milliseconds: int
    ) -> Refuse:
        """A TTL that is too short or too long."""
        least = max((bounds.least for bounds in found if bounds.least is not None), default=0)
        key = self._refusals.shown(command.keys[0].name) if command.keys else "the key"
        shown = f"the TTL of {key} ({_place(command, stated)}) is {shown_time(milliseconds)}"
        if milliseconds < least * 1000:
            missing = shown_time(least * 1000 - milliseconds)
            return self._refuse(
                command, f"{shown}, {missing} less than the minimum of {shown_time(least * 1000)}", _LONGER
            )
        most = min(bounds.most for bounds in found if bounds.most is not None)
        excess = shown_time(milliseconds - most * 1000)
        return self._refuse(command, f"{shown}, {excess} more than the limit of {shown_time(most * 1000)}", _SHORTER)

    def refuse_persist(self, command: Command) -> Refuse:
        """A command that removes a TTL."""
        why = f"{command.name} removes the TTL of {self._key(command)}"
        return self._refuse(command, why, "keep the TTL, or set another with EXPIRE")

    def refuse_unproven(self, command: Command) -> Refuse:
        """A command that may create a key without a TTL."""
        why = f"{command.name} may create {self._key(command)} without a TTL, and Keyrail cannot add one here"
        return self._refuse(command, why, "create the key with a command that states its TTL")

    def refuse_streamed(self, command: Command) -> Refuse:
        """A streamed value in the middle of a command."""
        why = f"the value of {self._key(command)} is too large: Keyrail cannot add a TTL behind its options"
        return self._refuse(command, why, "write it with EX")

    def _key(self, command: Command) -> str:
        return self._refusals.key(command, command.keys[0].index) if command.keys else "a key"

    def _refuse(self, command: Command, why: str, instead: str) -> Refuse:
        owner = self._schema.owners_of(command.keys)[0] if command.keys else None
        return self._refusals.of(why, instead, command, owner=owner)


_LONGER = "state a longer one"
_SHORTER = "state a shorter one"
_OPTIONS = (b"EX", b"PX", b"EXAT", b"PXAT")


def _place(command: Command, stated: StatedExpiry) -> str:
    """Where a TTL stands: ``EX, argument 4 of SET``."""
    option = word_of(command.argv[stated.index - 1])
    named = f"{option.decode()}, " if option in _OPTIONS else ""
    return f"{named}argument {stated.index} of {command.name}"
