"""Limits on bytes, for a command that is streamed before it can be judged: its bytes are paid for before they pass.

What a command is about may be known only at its end. What stands before its first large argument is enough to tell
which enforced limits it is under, but for keys that come later: a limit on those is paid for at the end, as are limits
with exceptions.
"""

from proxy.commands.command import Command
from proxy.policy.decision import Hit
from proxy.policy.model import Mode
from proxy.rules.rule import Prepayment
from proxy.session.policy import judging
from proxy.session.session import Session


class Paying:
    """The byte limits of one streamed command, and how much it has paid each so far."""

    __slots__ = ("_command", "_limits", "_session")

    def __init__(self, session: Session, command: Command) -> None:
        context = judging.context_of(session)
        self._session = session
        self._command = command
        self._limits: list[tuple[str, Prepayment]] = []
        for step in session.effective_policy.compiled.steps:
            if step.enforced and (prepayment := step.rule.prepay(command, context)) is not None:
                self._limits.append((step.rule.name, prepayment))

    @property
    def prepaid(self) -> dict[str, int]:
        """How many bytes have been paid for, by the limit's name."""
        return {limit: prepayment.bytes for limit, prepayment in self._limits}

    def pay(self, total: int) -> bytes | None:
        """Pay for the first `total` bytes of the command; the error if a limit does not allow so many."""
        ports = self._session.ports
        for limit, prepayment in self._limits:
            refusal = prepayment.pay(total, ports.route.now())
            if refusal is not None:
                ports.reports.report((Hit(limit, Mode.ENFORCE, "refused"),), self._command, self._session)
                return refusal.error
        return None
