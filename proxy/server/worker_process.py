"""One worker process, in the supervisor: its channel, and its last report."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from proxy.server.control import ListenerSocket, Start, WorkerReport
from proxy.server.descriptors import hand_over
from proxy.server.leases import Demands
from proxy.server.listeners import Listeners
from proxy.server.requests import Channel
from proxy.server.run_queue import RunQueueWait
from proxy.server.worker_start import StartedProcess


@dataclass(slots=True, eq=False)
class WorkerProcess:
    """One living worker process."""

    number: int
    process: StartedProcess
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
    started: StartedProcess,
    listeners: Listeners,
    memory: int,
    start: Callable[[int, tuple[ListenerSocket, ...]], Start],
) -> WorkerProcess:
    """Hand a started process the shared memory and the listening sockets, tell it to be this worker. Raises OSError;
    then the process has ended."""
    handed = listeners.sockets()
    try:
        with contextlib.suppress(ConnectionError):  # its exit status says why it has ended
            hand_over(started.control, [memory, *(each.fileno() for *_, each in handed)])
        channel = await Channel.over(started.control)
    except OSError:
        started.dismiss()
        raise
    channel.notify(start(number, tuple(ListenerSocket(route, listener) for route, listener, _ in handed)))
    return WorkerProcess(number, started, channel)
