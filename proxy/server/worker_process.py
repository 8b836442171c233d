"""One worker process, in the supervisor: its channel, and its last report."""

import asyncio
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from proxy.net.config.interpreter import module_command, module_environment
from proxy.server.control import ListenerSocket, Start, WorkerReport
from proxy.server.leases import Demands
from proxy.server.listeners import Listeners
from proxy.server.requests import Channel
from proxy.server.run_queue import RunQueueWait


@dataclass(slots=True, eq=False)
class WorkerProcess:
    """One living worker process."""

    number: int
    process: asyncio.subprocess.Process
    channel: Channel
    serving: bool = False
    report: WorkerReport | None = None
    heard: float = field(default_factory=time.monotonic)
    forgiven: float = 0.0
    """Seconds since then in which the supervisor itself was stopped, or this worker waited for a CPU."""
    run_queue: RunQueueWait = field(default_factory=RunQueueWait)
    wanted: tuple[Demands, ...] = ()


async def launch(
    number: int,
    listeners: Listeners,
    memory: int,
    start: Callable[[int, tuple[ListenerSocket, ...]], Start],
) -> WorkerProcess:
    """Start a worker process, hand it the listening sockets and the shared memory, tell it to start. Raises OSError."""
    ours, theirs = socket.socketpair()
    handed = listeners.sockets()
    with theirs:
        process = await asyncio.create_subprocess_exec(
            *module_command("proxy.server.worker", str(theirs.fileno())),
            stdin=asyncio.subprocess.DEVNULL,
            pass_fds=[theirs.fileno(), *(each.fileno() for *_, each in handed), memory],
            env=module_environment(),
            process_group=0,
        )
    channel = await Channel.over(ours)
    channel.notify(
        start(
            number,
            tuple(ListenerSocket(route, listener, each.fileno()) for route, listener, each in handed),
        )
    )
    return WorkerProcess(number, process, channel)
