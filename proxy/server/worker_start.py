"""A worker process, from its start until it is told which worker it is.

At the start of Keyrail, imports take longest. So the first worker's process begins before this one imports anything
else, and imports the worker meanwhile; the sockets that it serves, and the memory that it shares, are handed over when
they are open. Hence this module imports little.
"""

import contextlib
import gc
import socket
import sys
from subprocess import DEVNULL, Popen

from proxy.net.config.interpreter import module_command, module_environment
from proxy.server.descriptors import take_over


class StartedProcess:
    """A process that waits to be told which worker it is; it ends by itself once ``control`` is closed."""

    def __init__(self) -> None:
        """Start it. Raises OSError."""
        self.control, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = Popen(
                    module_command(__name__, str(theirs.fileno())),
                    stdin=DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env=module_environment(),
                    process_group=0,
                )
            except OSError:
                self.control.close()
                raise
        self.pid = self._process.pid

    async def wait(self) -> int:
        """Wait until it has ended; return its exit status, or the negated number of the signal."""
        from proxy.net.config.background_thread import BackgroundThread  # noqa: PLC0415  it imports asyncio

        return await BackgroundThread(f"waits for process {self.pid}").run(self._process.wait)

    def kill(self) -> None:
        """End it at once, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def dismiss(self) -> None:
        """End it, since nobody needs it, and wait until it has ended."""
        self.control.close()
        self.kill()
        self._process.wait()


_ahead: list[StartedProcess] = []


def start_ahead() -> None:
    """Start a process that will be the first worker, if it can be started."""
    with contextlib.suppress(OSError):  # whoever needs it says why it cannot
        _ahead.append(StartedProcess())


def next_process() -> StartedProcess:
    """The process that was started ahead, or a new one. Raises OSError."""
    return _ahead.pop() if _ahead else StartedProcess()


def dismiss_rest() -> None:
    """End the process that was started ahead, if no worker was needed."""
    while _ahead:
        _ahead.pop().dismiss()


def become_worker() -> None:
    """Be the process that was started; its argument is the descriptor of its socket."""
    gc.disable()  # what is imported stays
    from proxy.server.worker import main  # noqa: PLC0415  the long import

    gc.enable()
    control = socket.socket(fileno=int(sys.argv[1]))
    try:
        descriptors = take_over(control)
    except OSError as error:
        sys.exit(f"keyrail: a worker cannot take over the listening sockets: {error.strerror}")
    sys.exit(0 if descriptors is None else main(control, descriptors))


if __name__ == "__main__":
    become_worker()
