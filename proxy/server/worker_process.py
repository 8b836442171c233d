"""One worker process, in the supervisor: its channel, and its last report.

A process is started, and imports the program, before it is told what to do: at the start of Keyrail that takes as long
as what the supervisor itself imports, and opens, meanwhile.
"""

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from proxy.net.config.interpreter import module_command, module_environment
from proxy.server.control import ListenerSocket, Start, WorkerReport
from proxy.server.descriptors import hand_over
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


@dataclass(frozen=True, slots=True)
class StartedProcess:
    """A process that waits to be told which worker it is; it ends by itself if ``control`` is closed."""

    process: asyncio.subprocess.Process
    control: socket.socket

    async def end(self) -> None:
        """End it: it is not needed."""
        self.control.close()
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()


async def start_process() -> StartedProcess:
    """Start a process that can become a worker. Raises OSError."""
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            process = await asyncio.create_subprocess_exec(
                *module_command("proxy.server.worker", str(theirs.fileno())),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=module_environment(),
                process_group=0,
            )
        except OSError:
            ours.close()
            raise
    return StartedProcess(process, ours)


async def launch(
    number: int,
    started: StartedProcess,
    listeners: Listeners,
    memory: int,
    start: Callable[[int, tuple[ListenerSocket, ...]], Start],
) -> WorkerProcess:
    """Hand a started process the shared memory and the listening sockets, tell it to be this worker. Raises OSError."""
    handed = listeners.sockets()
    with contextlib.suppress(ConnectionError):  # its exit status says why it has ended
        hand_over(started.control, [memory, *(each.fileno() for *_, each in handed)])
    channel = await Channel.over(started.control)
    channel.notify(start(number, tuple(ListenerSocket(route, listener) for route, listener, _ in handed)))
    return WorkerProcess(number, started.process, channel)
