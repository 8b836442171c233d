"""A command on its way through a session."""

from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.policy.decision import Following
from proxy.rules.verdict import ReplyEdit
from proxy.session.measuring import Measurement


@dataclass(slots=True)
class Item:
    """A command that has been judged: what it is now, its bytes, what is to be done to its reply, what goes with it."""

    command: Command
    raw: bytes
    edit: ReplyEdit | None = None
    followings: tuple[Following, ...] = ()
    measurement: Measurement | None = None
    """There for a command that is looked at closely."""
