"""What an application reads when a rule about lifetimes refuses its command."""

from collections.abc import Sequence

from proxy.commands.command import Command
from proxy.rules.rule import Wording
from proxy.rules.verdict import Refuse, refusal
from proxy.schema.bounds import Bounds

_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))


class LifetimeWording:
    """The refusals of one rule, in its author's words where there are any."""

    def __init__(self, name: str, wording: Wording) -> None:
        self._name = name
        self._wording = wording

    def refuse_unstated(self, command: Command) -> Refuse:
        """A write that has to state a TTL, and doesn't."""
        return self._refusal(f"{command.name} states no TTL", "write it with SET and EX, or MSETEX and EX")

    def refuse_outside(self, command: Command, found: Sequence[Bounds], milliseconds: int) -> Refuse:
        """A TTL that is too short or too long."""
        least = max((bounds.least for bounds in found if bounds.least is not None), default=0)
        if milliseconds < least * 1000:
            return self._refusal(f"{command.name} states a TTL of less than {_shown(least)}", "state a longer one")
        most = min(bounds.most for bounds in found if bounds.most is not None)
        return self._refusal(f"{command.name} states a TTL of more than {_shown(most)}", "state a shorter one")

    def refuse_persist(self, command: Command) -> Refuse:
        """A command that takes a TTL away."""
        return self._refusal(f"{command.name} takes the TTL of a key away", "leave it, or state another with EXPIRE")

    def refuse_unproven(self, command: Command) -> Refuse:
        """A command that may create a key for ever."""
        why = f"{command.name} may create a key without a TTL, and can't be given one here"
        return self._refusal(why, "create the key with a command that states its TTL")

    def refuse_streamed(self) -> Refuse:
        """A value in the middle of a command, too large to be held back."""
        return self._refusal("the value is too large for a TTL to be added behind its options", "write it with EX")

    def _refusal(self, why: str, instead: str) -> Refuse:
        because = f", and {self._wording.because}" if self._wording.because else ""
        return refusal(self._name, why + because, self._wording.instead or instead)


def _shown(seconds: int) -> str:
    """A time as people write it: ``90s``, ``5m``, ``2h``."""
    unit, letter = next(each for each in _UNITS if seconds % each[0] == 0)
    return f"{seconds // unit}{letter}"
