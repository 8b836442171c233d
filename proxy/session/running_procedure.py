"""One procedure on its way: the questions that a rule asks Redis before it decides."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from proxy.rules.verdict import End, Procedure, Steps
from proxy.session.ports.ports import Ports, Questions

Answered: TypeAlias = Callable[[Sequence[bytes] | None], None]

_NO_CONNECTION = "no connection to Redis could be had for it"


class RunningProcedure:
    """One procedure on its way: ``ended`` gets what it ends in, or the error that it failed with, once.

    ``ask`` sends its questions.
    """

    __slots__ = ("_ask", "_cancel_timer", "_ended", "_over", "_ports", "_procedure", "_steps")

    def __init__(
        self,
        ports: Ports,
        ask: Callable[[Questions, Answered], None],
        procedure: Procedure,
        ended: Callable[[End | Exception], None],
    ) -> None:
        self._ports = ports
        self._ask = ask
        self._procedure = procedure
        self._ended = ended
        self._over = False
        self._steps: Steps | None = None
        self._cancel_timer: Callable[[], None] | None = None

    def begin(self) -> None:
        """Ask the first question; a procedure may also end without any."""
        seconds = self._procedure.seconds
        self._cancel_timer = self._ports.route.after(
            seconds, partial(self._abandon, f"it took longer than {seconds:g} s")
        )
        self._steps = self._procedure.steps()
        self._advance(None)

    def cancel(self) -> None:
        """The result is not needed any more."""
        # What is over refers to nothing that refers to it.
        self._over = True
        cancel_timer, self._cancel_timer = self._cancel_timer, None
        if cancel_timer is not None:
            cancel_timer()
        steps, self._steps = self._steps, None
        if steps is not None:
            steps.close()

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
            self._ask(questions, self._answered)

    def _answered(self, replies: Sequence[bytes] | None) -> None:
        if self._over:
            return
        if replies is None:
            self._abandon(_NO_CONNECTION)
        else:
            self._advance(replies)

    def _abandon(self, why: str) -> None:
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
