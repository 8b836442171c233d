"""One worker process as the supervisor holds it: its channel, what it has reported, and what it still has to answer."""

import asyncio
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from proxy.net.interpreter import module_command, module_environment
from proxy.server.control import Channel, Committed, ListenerSocket, Prepared, Report, Start, Switched
from proxy.server.leases import Demands
from proxy.server.listeners import Listeners
from proxy.traffic.evidence import Records
from proxy.traffic.merge import Answer

PREPARE_SECONDS = 15.0


@dataclass(slots=True, eq=False)
class Member:
    """One living worker process."""

    number: int
    process: asyncio.subprocess.Process
    channel: Channel
    serving: bool = False
    report: Report | None = None
    evidence: list[Records] = field(default_factory=list)
    heard: float = field(default_factory=time.monotonic)
    wanted: tuple[Demands, ...] = ()
    prepared: asyncio.Future[Prepared] | None = None
    expected: dict[Committed | Switched, asyncio.Future[None]] = field(default_factory=dict)
    answers: dict[int, asyncio.Future[Answer]] = field(default_factory=dict)

    def unprepared(self) -> str | None:
        """Return why it is not prepared for new policies, or None; one that died needs no preparation."""
        prepared = self.prepared
        if prepared is None or prepared.cancelled():
            return None
        if not prepared.done():
            return f"no answer in {PREPARE_SECONDS:.0f} seconds"
        return prepared.result().problem

    def give_up(self) -> None:
        """It has ended: let nobody wait for its answers."""
        for waiting in [self.prepared, *self.answers.values(), *self.expected.values()]:
            if waiting is not None:
                waiting.cancel()


async def launch(number: int, listeners: Listeners, start: Callable[[tuple[ListenerSocket, ...]], Start]) -> Member:
    """Start a worker process, hand it its listening sockets, and tell it to start. Raises OSError."""
    ours, theirs = socket.socketpair()
    handed = listeners.sockets_of(number)
    with theirs:
        process = await asyncio.create_subprocess_exec(
            *module_command("proxy.server.worker", str(theirs.fileno())),
            stdin=asyncio.subprocess.DEVNULL,
            pass_fds=[theirs.fileno(), *(each.fileno() for _, _, each in handed)],
            env=module_environment(),
            process_group=0,
        )
    channel = await Channel.over(ours)
    channel.send(start(tuple(ListenerSocket(route, listener, each.fileno()) for route, listener, each in handed)))
    return Member(number, process, channel)
