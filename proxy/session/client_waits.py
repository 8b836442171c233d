"""What a client's next command waits for: replies, an upstream connection, an answer of Keyrail's own.

Whoever brings it on need not know whether it may go on: ``arrived`` looks.
"""

from proxy.hotpath.intake.command_sender import CommandSender
from proxy.hotpath.intake.intake import Intake
from proxy.hotpath.order.reply_order import Segment
from proxy.session.client_upstream import UpstreamClient
from proxy.session.guarded import guarded
from proxy.session.ports.pool_key import PoolKey
from proxy.session.ports.pool_waiter import UpstreamWait
from proxy.session.ports.ports import Ports
from proxy.session.state import LACKING, Awaited


class AwaitingClient(UpstreamClient):
    """A client whose next command may wait. ``overtaking`` is the place of the reply to the command that has overtaken
    others, which the next one waits for. ``lacking`` says since when the next command waits for something that Keyrail
    lacks, and how many commands had been sent by then. ``local`` counts those that Keyrail has answered.
    """

    __slots__ = ("awaited", "lacking", "local", "overtaking", "upstream_wait")

    def __init__(self, ports: Ports, sender: CommandSender, intake: Intake, key: PoolKey) -> None:
        super().__init__(ports, sender, intake, key)
        self.local = 0
        self.awaited: Awaited | None = None
        self.upstream_wait: UpstreamWait | None = None
        self.overtaking: Segment | None = None
        self.lacking: tuple[float, int] | None = None

    def wait_for(self, awaited: Awaited) -> None:
        """Forward nothing until somebody calls ``arrived``."""
        self.awaited = awaited
        if awaited in LACKING and self.lacks_since() is None:
            self.lacking = self.ports.route.now(), self.sender.requested + self.local
        self.intake.wait()

    def wait_for_upstream(self, wait: UpstreamWait) -> None:
        """The same, and end this wait then."""
        self.wait_for(Awaited.UPSTREAM)
        self.upstream_wait = wait

    def lacks_since(self) -> float | None:
        """Since when the next command waits for something that Keyrail lacks; None if it does not."""
        lacking = self.lacking
        if lacking is not None and lacking[1] != self.sender.requested + self.local:
            lacking = self.lacking = None  # the command that waited has been sent, or answered
        return None if lacking is None else lacking[0]

    def stop_waiting(self) -> None:
        """Nothing is awaited any more."""
        self.awaited = None
        if self.upstream_wait is not None:
            self.upstream_wait.end()
            self.upstream_wait = None
        self.intake.go_on()

    @guarded
    def arrived(self) -> None:
        """What it waits for may be there, or what it waited for once and gave up."""
        if self.awaited is not None and self.intake.running:
            # In the middle of the command that has just begun to wait: nothing would bring it on after that.
            self.ports.route.after(0.0, self.arrived)
            return
        if self.awaited is not None and not self.gone and not self._waits_on():
            self._go_on()
        self.close_if_done()

    def _go_on(self) -> None:
        self.stop_waiting()
        self.intake.resume()

    def _waits_on(self) -> bool:
        # Where a command has been sent already, its reply decides who the client is then, and where the next one goes.
        if self.awaited is Awaited.REPLIES and self.sender.pending_replies > 0:
            self.sender.notify_when_idle = True
            return True
        return self.awaited is Awaited.REPLICA or self._awaits_elsewhere()

    def _awaits_elsewhere(self) -> bool:
        # Whether the reply to a command that has overtaken others is pending, which the next command waits for.
        if self.overtaking is not None and self.overtaking.pending_replies == 0:
            self.overtaking = None
        return self.overtaking is not None
