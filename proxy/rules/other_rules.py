"""The rules in force beside one, as a rule sees them that judges commands which others bring: scripts call them."""

from typing import NamedTuple, Protocol

from proxy.commands.command import Command
from proxy.rules.context import Context


class Objection(NamedTuple):
    """A rule refuses what a script calls: why, and what to do instead. If it is `audited`, the script runs."""

    rule: str
    audited: bool
    why: str = ""
    instead: str = ""


class OtherRules(Protocol):
    """The policy's other rules, as scripts must follow them. Of several that refuse something, one that is not audited
    is named."""

    @property
    def about_keys(self) -> bool:
        """Whether any of them is about keys or arguments."""

    def to_command(self, command: Command, complete: bool, context: Context) -> Objection | None:
        """Which rule refuses a command as such. If not `complete`, it is the beginning of one."""

    def to_call(self, called: Command, context: Context) -> Objection | None:
        """Which rule refuses a called command for its keys or arguments."""

    def to_keys(self, command: Command, context: Context) -> Objection | None:
        """Which rule refuses that one script touches all these keys."""
