"""A circuit breaker: while Redis fails or is too slow, commands are refused at once and do not pile up.

    breaker: {failing_for: 2s, slower_than: 250ms, window: 5s, cool_down: 10s}

Keyrail observes its own commands, which it sends several times a second behind those of clients: they take as long as
clients wait. The circuit opens when Redis has been failing (no connection, no answer, LOADING, BUSY) for
``failing_for``, or when the median of all observations of a whole ``window`` is above ``slower_than``. It stays open
for ``cool_down``, and then until an observation is good, checked every second. Then it is half open: one command in ten
goes to Redis. If the next window is good the circuit closes, if not it opens again.

Commands about the connection or a transaction always go to Redis: an answer to PING from Keyrail would hide a dead
Redis, and a client must be able to end a transaction with refused commands.

    state        observation                          becomes
    closed       failing for long, or a slow window   open
    open         a good one, after the cool-down      half open
    half open    a failure                            open
    half open    a slow one at the window's end       open
    half open    a good one at the window's end       closed
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum
from statistics import median

from proxy.commands.command import Command
from proxy.commands.table import Spec
from proxy.hotpath.leased_tokens import UNLIMITED, LeasedTokens, TokenSet
from proxy.rules.context import Context
from proxy.rules.free_commands import is_free
from proxy.rules.limit_membership import Presence
from proxy.rules.lowering import Lowering
from proxy.rules.refusals import Refusals
from proxy.rules.rule import Binding, InScripts, Needs, Rule, RuleSettings, Wording
from proxy.rules.shared_state import ObservingState
from proxy.rules.verdict import PASS, Verdict

_NEXT_LOOK = 1.0
"""Seconds between checks of an open circuit after the cool-down."""
_TRIALS = 10
"""While half open, one command in this many goes to Redis."""


@dataclass(frozen=True, slots=True)
class BreakerSettings(RuleSettings):
    """All in seconds; without `slower_than`, slow observations do not open the circuit."""

    failing_for: float = 2.0
    slower_than: float | None = None
    window: float = 5.0
    cool_down: float = 10.0

    def bind(self, name: str, wording: Wording, binding: Binding) -> "Breaker":
        return Breaker(name, self, wording, binding)


class CircuitState(Enum):
    """How a circuit treats commands."""

    CLOSED = "closed"
    """They go to Redis."""
    OPEN = "open"
    """They are refused."""
    HALF_OPEN = "half open"
    """A few go to Redis."""


class Circuit(ObservingState):
    """The circuit of one worker for a route's Redis, from the worker's observations. Times are in seconds."""

    def __init__(self, settings: BreakerSettings) -> None:
        self.state = CircuitState.CLOSED
        self.why = ""
        self.until = 0.0
        self._settings = settings
        self._commands = LeasedTokens(UNLIMITED)
        self.token_set = TokenSet(self._commands, LeasedTokens(UNLIMITED), LeasedTokens(UNLIMITED))
        self._failing_since: float | None = None
        self._since = 0.0
        self._observed: deque[tuple[float, float]] = deque()
        self._asked = 0

    @property
    def restricts(self) -> bool:
        return self.state is not CircuitState.CLOSED

    @property
    def description(self) -> str:
        return f"{self.state.value}: {self.why}" if self.state is CircuitState.OPEN else self.state.value

    def observe(self, now: float, took: float | None) -> None:
        if took is None:
            self._failing_since = now if self._failing_since is None else self._failing_since
        else:
            self._failing_since = None
            self._note(now, took)
        match self.state:
            case CircuitState.CLOSED:
                if self._failing(now) or (self._seen_a_window(now) and self._slow()):
                    self._open(now)
            case CircuitState.OPEN:
                if now >= self.until:
                    self._look_again(now, took)
            case CircuitState.HALF_OPEN:
                if took is None or (self._seen_a_window(now) and self._slow()):
                    self._open(now)
                elif self._seen_a_window(now):
                    self._begin(CircuitState.CLOSED, now)
                    self._commands.left = UNLIMITED

    def _note(self, now: float, took: float) -> None:
        if not self._observed:
            self._since = now
        self._observed.append((now, took))
        while self._observed[0][0] < now - self._settings.window:
            self._observed.popleft()

    def _failing(self, now: float) -> bool:
        return self._failing_since is not None and now - self._failing_since >= self._settings.failing_for

    def _too_long(self, took: float) -> bool:
        return self._settings.slower_than is not None and took > self._settings.slower_than

    def _seen_a_window(self, now: float) -> bool:
        return bool(self._observed) and now - self._since >= self._settings.window

    def _slow(self) -> bool:
        return self._too_long(median(took for _, took in self._observed))

    def _begin(self, state: CircuitState, now: float) -> None:
        self.state = state
        self._since = now
        self._observed.clear()

    def _look_again(self, now: float, took: float | None) -> None:
        if took is not None and not self._too_long(took):
            self._begin(CircuitState.HALF_OPEN, now)
            self.until = now + self._settings.window
        else:
            self.until = now + min(self._settings.cool_down, _NEXT_LOOK)

    def _open(self, now: float) -> None:
        slower_than = self._settings.slower_than
        if slower_than is None or self._failing_since is not None:
            self.why = "Redis is failing"
        else:
            self.why = f"Redis is slower than {slower_than * 1000:.0f} ms"
        self._begin(CircuitState.OPEN, now)
        self.until = now + self._settings.cool_down
        self._commands.left = 0

    def lets_through(self) -> bool:
        """Whether a command may go to Redis; each call counts as a command."""
        if self.state is CircuitState.HALF_OPEN:
            self._asked += 1
            return self._asked % _TRIALS == 0
        return self.state is CircuitState.CLOSED


class Breaker(Rule):
    """The rule that refuses commands by the state of a circuit."""

    needs = Needs(place=True, history=True, in_scripts=InScripts.NOTHING)

    def __init__(self, name: str, settings: BreakerSettings, wording: Wording, binding: Binding) -> None:
        self.name = name
        self._refusals = Refusals(name, wording, binding)
        self._circuit = binding.memory.of(name, settings, lambda: Circuit(settings))
        self._presence = Presence(self._circuit.token_set)

    def touches(self, spec: Spec) -> bool:
        """All commands but those about the connection or a transaction."""
        return not is_free(spec)

    def judge(self, _command: Command, context: Context) -> Verdict:
        """Refuse while the circuit is open."""
        circuit = self._circuit
        if circuit.lets_through():
            return PASS
        return self._refusals.of(circuit.why, "", retry=circuit.until - context.now)

    def enter(self, _context: Context) -> Presence:
        """All clients have one token set, which is empty while the circuit is not closed."""
        return self._presence

    def lower(self, _spec: Spec, lowering: Lowering) -> None:
        """The plan passes a command if the token set can pay for it."""
        lowering.spend()
