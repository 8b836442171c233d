"""Rules that ask Redis before they decide.

The command that such a rule was asked about waits, and with it all that its client sends behind it; what it is owed
from before still comes. The questions go over a connection of Keyrail's own, so nothing is added to what the client's
upstreams carry, and no other client waits.

      judge ──(Procedure)──> asking ──(answers)──> judged on from that rule ──> routed
                               │
                               ├── the time is over, or no connection can be had: the rule's ``otherwise``
                               └── the client has left: nothing comes of it

The procedure of a rule that is only audited is run as well, but nobody waits for it, not even for its client to
be there still: its end is counted.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from proxy.commands.command import Command
from proxy.policy.compile import CompiledPolicy
from proxy.policy.decision import Aside, Decision
from proxy.rules.verdict import End, Procedure, Steps
from proxy.session import switching
from proxy.session.gate import Gate, PoolKey

if TYPE_CHECKING:
    from proxy.session.session import Session

_NO_CONNECTION = "no connection to Redis could be had for it"


class Inquiry:
    """One procedure on its way: ``ended`` gets what it ends in, or the error that it failed with, once."""

    __slots__ = ("_cancel_timer", "_ended", "_gate", "_key", "_over", "_procedure", "_steps")

    def __init__(
        self, gate: Gate, key: PoolKey, procedure: Procedure, ended: Callable[[End | Exception], None]
    ) -> None:
        self._gate = gate
        self._key = key
        self._procedure = procedure
        self._ended = ended
        self._over = False
        self._steps: Steps | None = None
        self._cancel_timer: Callable[[], None] | None = None

    def begin(self) -> None:
        """Ask the first question; a procedure may also end without any."""
        seconds = self._procedure.seconds
        self._cancel_timer = self._gate.after(seconds, partial(self._give_up, f"it took longer than {seconds:g} s"))
        self._steps = self._procedure.steps()
        self._advance(None)

    def cancel(self) -> None:
        """Nobody wants to know any more."""
        self._over = True
        if self._cancel_timer is not None:
            self._cancel_timer()
        if self._steps is not None:
            self._steps.close()

    def _advance(self, replies: Sequence[bytes] | None) -> None:
        steps = self._steps
        assert steps is not None
        try:
            questions = next(steps) if replies is None else steps.send(replies)
        except StopIteration as stop:
            self._end(stop.value)
        except Exception as error:  # noqa: BLE001 - a rule's bug must not take the session down
            self._end(error)
        else:
            self._gate.ask(self._key, questions, self._answered)

    def _answered(self, replies: Sequence[bytes] | None) -> None:
        if self._over:
            return
        if replies is None:
            self._give_up(_NO_CONNECTION)
        else:
            self._advance(replies)

    def _give_up(self, why: str) -> None:
        if self._over:
            return
        try:
            end: End | Exception = self._procedure.otherwise(why)
        except Exception as error:  # noqa: BLE001 - a rule's bug must not take the session down
            end = error
        self._end(end)

    def _end(self, end: End | Exception) -> None:
        self.cancel()
        self._ended(end)


def settle(session: "Session", command: Command, decision: Decision) -> Decision | None:
    """Run what the decision waits for; None where the command has to wait, and then comes back to be routed."""
    policy = session.regime.policy
    while True:
        for aside in decision.asides:
            _look_on(session, policy, command, aside)
        if decision.pause is None:
            return decision
        if session.lingering and session.owed == 0 and not switching.keeps_pin(session):
            # It has logged in, and this is what follows: its connection may be the only one that there is to ask on.
            session.unpin()
        session.inquiry = inquiry = _inquiry(session, policy, command, decision)
        inquiry.begin()
        if session.resolved is None:
            session.halted = True
            return None
        decision, session.resolved = session.resolved, None


def _inquiry(session: "Session", policy: CompiledPolicy, command: Command, decision: Decision) -> Inquiry:
    pause, procedure = decision.pause, decision.verdict
    assert pause is not None
    assert isinstance(procedure, Procedure)

    def ended(end: End | Exception) -> None:
        session.inquiry = None
        if session.gone:
            return
        following = policy.resume(pause, end, session.context())
        if following.hits:
            session.gate.report(following.hits, command, session)
        session.resolved = following
        session.arrived()

    return Inquiry(session.gate, session.key, procedure, ended)


def _look_on(session: "Session", policy: CompiledPolicy, command: Command, aside: Aside) -> None:
    def ended(end: End | Exception) -> None:
        hits = policy.said(aside.rule, aside.mode, end)
        if hits:
            session.gate.report(hits, command, session)

    Inquiry(session.gate, session.key, aside.procedure, ended).begin()
