"""Views of a session that several handlers share: each of them asks for what it needs, and gets nothing else.

What belongs to one subject stands with it: ``SendingClient`` in ``sending.py``, ``JudgedClient`` in ``judging.py``,
``SwitchingClient`` in ``switching.py`` …
"""

from typing import Protocol

from proxy.hotpath.command_sender import CommandSender
from proxy.hotpath.intake import Intake
from proxy.session.pool_waiter import PoolWaiter, UpstreamWait
from proxy.session.ports import Ports
from proxy.session.state import Awaited, ClientState


class ConnectedClient(Protocol):
    """A client, the state of its connection, what it has sent and what it has not read."""

    ports: Ports

    @property
    def state(self) -> ClientState:
        """The state of its connection."""

    @property
    def sender(self) -> CommandSender:
        """What sends its commands."""

    @property
    def intake(self) -> Intake:
        """What reads its commands."""


class WaitingClient(PoolWaiter, Protocol):
    """A client whose next command can wait."""

    def wait_for(self, awaited: Awaited) -> None:
        """Forward nothing until somebody calls ``arrived``."""

    def wait_for_upstream(self, wait: UpstreamWait) -> None:
        """The same, and end this wait then."""
