"""What leaves a session: commands to its current upstream, answers of the proxy's own to its client.

Each has its place among the replies that are owed, and falls silent where CLIENT REPLY says so.
"""

from typing import TYPE_CHECKING

from proxy.hotpath.debts import EDIT, HIDE, LOCAL, MEASURE, REPLACE
from proxy.hotpath.intake import Intake, Terms
from proxy.rules.verdict import ReplyEdit
from proxy.session import silence
from proxy.session.gate import Gate, PrivateLedger
from proxy.session.measuring import Measurement
from proxy.session.poison import POISON
from proxy.wire.request import Limits

if TYPE_CHECKING:
    from proxy.session.transaction import Transaction

_AT_ONCE = 64
_SHORT = 4096
"""Bytes. So many short answers gather before they leave, and no longer one, as the client may not take them."""


class Outlet(Intake):
    """A client's commands and answers on their way out. ``pinned`` is the upstream that it has for itself."""

    __slots__ = ("gate", "local", "pinned", "replies", "transaction")

    def __init__(self, gate: Gate, terms: Terms, limits: Limits) -> None:
        super().__init__(terms, limits)
        self.gate = gate
        self.pinned: PrivateLedger | None = None
        self.transaction: Transaction | None = None
        self.replies = silence.ON
        self.local = 0

    def submit_measured(self, raw: bytes, edit: ReplyEdit | None, measurement: Measurement) -> None:
        """The same as ``submit``, and the reply is measured."""
        ledger = self.ledger
        assert ledger is not None
        if edit is None:
            self.forwarded += 1
            self.owe(raw, MEASURE, measurement)
        else:
            self.submit(raw, measurement.around(edit))
        self.gate.departs(ledger, measurement)

    def submit(self, raw: bytes, edit: ReplyEdit | None = None) -> None:
        """Send one command to the current upstream and owe its reply, unless CLIENT REPLY has silenced it."""
        ledger = self.ledger
        assert ledger is not None
        self.forwarded += 1
        if self.replies != silence.ON and silence.falls_on(self):
            ledger.send(self, raw)
            ledger.commands += 1
        elif edit is None:
            ledger.submit(self, raw, 1)
        else:
            self.owe(raw, EDIT, edit)

    def owe(self, raw: bytes, fate: int, payload: object, due: int = 1) -> None:
        """Send one command whose reply has a fate of its own."""
        ledger = self.ledger
        assert ledger is not None
        ledger.send(self, raw)
        ledger.commands += 1
        ledger.owe(self, due, fate, payload)

    def hide(self, raw: bytes) -> None:
        """Send a command of the proxy's own on the private upstream; its reply is dropped."""
        assert self.pinned is not None
        self.pinned.send(self, raw)
        self.pinned.owe(self, 1, HIDE, None)

    def log_in(self) -> None:
        """Redis has accepted a login: its limits for strangers no longer hold."""
        self.limits = self.gate.limits(authenticated=True)

    def log_out(self) -> None:
        """The connection is as it was at first."""
        self.limits = self.gate.limits(authenticated=False)

    def answer(self, payload: bytes) -> None:
        """An answer of the proxy's own, in its place among the replies."""
        if self.replies != silence.ON and silence.swallows(self):
            return
        self.local += 1
        if self.owed == 0:
            self.out.append(payload)
            if not self.running or len(self.out) >= _AT_ONCE or len(payload) > _SHORT:
                self.flush()
        else:
            assert self.ledger is not None
            self.ledger.owe(self, 1, LOCAL, payload)

    def refuse(self, error: bytes, poison: bytes = POISON) -> None:
        """Answer a refusal; inside MULTI, so that Redis aborts the transaction as for any bad command."""
        if self.transaction is None:
            self.answer(error)
            return
        ledger = self.ledger
        assert ledger is not None
        ledger.send(self, poison)
        if not silence.falls_on(self):
            ledger.owe(self, 1, REPLACE, error)

    def arrived(self) -> None:
        """What this session waited for may be there."""
        if self.halted and not self.gone:
            self.halted = False
            self.resume()

    # What the connection does

    def close(self, cause: str) -> None:
        """Close the client now; ``cause`` is the label that metrics show."""
        raise AssertionError("the connection decides")

    def close_when_paid(self, cause: str) -> None:
        """Close the client as soon as nothing is owed."""
        raise AssertionError("the connection decides")
