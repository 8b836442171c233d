"""The other rules in force, for a rule that judges the calls of scripts."""

from typing import NamedTuple, Protocol

from proxy.commands.command import Command
from proxy.rules.context import Context


class Objection(NamedTuple):
    """A rule that refuses a call of a script: why, and what to do instead. If it is `audited`, the script runs."""

    rule: str
    audited: bool
    why: str = ""
    instead: str = ""


class OtherRules(Protocol):
    """The policy's other rules, which scripts must follow. If several refuse a call, one that is not audited is
    named."""

    @property
    def about_keys(self) -> bool:
        """Whether any of them is about keys or arguments."""

    def to_command(self, command: Command, complete: bool, context: Context) -> Objection | None:
        """The rule that refuses a command by its name and first arguments. If not `complete`, more arguments follow."""

    def to_call(self, called: Command, context: Context) -> Objection | None:
        """The rule that refuses a called command for its keys or arguments."""

    def to_keys(self, command: Command, context: Context) -> Objection | None:
        """The rule that refuses that one script uses all these keys."""
