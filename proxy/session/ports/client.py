"""A client, as the network side sees it: its transport, the policy in force for it, and who it is."""

from dataclasses import dataclass
from typing import Protocol

from proxy.commands.table import Table
from proxy.hotpath.intake.command_sender import CommandSender
from proxy.hotpath.intake.intake import Intake
from proxy.hotpath.plan.hot_path_config import HotPathConfig
from proxy.policy.compile import CompiledPolicy
from proxy.session.ports.client_identity import Names, Origin
from proxy.session.ports.pool_key import PoolKey
from proxy.session.ports.pool_waiter import PoolWaiter


class ClientTransport(Protocol):
    """The part of ``asyncio.Transport`` that a session uses."""

    def write(self, data: bytes) -> None:
        """Send these bytes."""

    def get_write_buffer_size(self) -> int:
        """Bytes that wait to be sent."""

    def pause_reading(self) -> None:
        """Bring no more bytes."""

    def resume_reading(self) -> None:
        """Bring bytes again."""

    def get_extra_info(self, name: str) -> object:
        """Its ``socket``, if it has one."""

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""

    def close(self) -> None:
        """Close it behind what was written."""

    def abort(self) -> None:
        """Close it now."""


@dataclass(slots=True)
class EffectivePolicy:
    """A policy generation as it is in force for some clients: compiled for their app and what their user may run."""

    config: HotPathConfig
    compiled: CompiledPolicy
    table: Table
    generation: int


class ServedClient(PoolWaiter, Protocol):
    """A session."""

    names: Names
    origin: Origin
    effective_policy: EffectivePolicy
    sender: CommandSender
    intake: Intake
    key: PoolKey

    @property
    def user_name(self) -> str:
        """The user as rules and figures know it."""

    @property
    def shown_names(self) -> Names:
        """Its names as figures show them."""

    @property
    def blocked(self) -> bool:
        """Whether Redis may hold a reply back until something happens."""

    def close_when_drained(self, cause: str) -> None:
        """Read no more of the client, and close it when no reply is pending."""
