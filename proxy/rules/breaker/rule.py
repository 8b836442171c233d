"""A circuit breaker: while Redis fails or is too slow, commands are refused at once and do not pile up.

    breaker: {failing_for: 2s, slower_than: 250ms, window: 5s, cool_down: 10s}

Keyrail observes its own commands, which it sends several times a second behind those of clients: they take as long as
clients wait. Each node has a circuit. It opens when the node has been failing (no connection, no answer, BUSY) for
``failing_for``, or when the median of all observations of a whole ``window`` is above ``slower_than``. While commands
wait for a failover, and while the server says that it is loading, it does not open.

A circuit that opened for a failure closes as soon as a few observations in a row are good: they prove that the node is
well. One that opened for slowness stays open for ``cool_down``, since Redis is fast while nobody uses it, and then
until an observation is good, checked every second. Then it is half open: one command in ten goes to Redis. If the next
window is good the circuit closes, if not it opens again.

A command is refused if the circuit of any node that it needs is not closed; one that any node can run, if all are.
Commands about the connection or a transaction always go to Redis: an answer to PING from Keyrail would hide a dead
Redis, and a client must be able to end a transaction with refused commands.

    state        observation                                becomes
    closed       failing for long, or a slow window         open
    open         a few good ones, after a failure           closed
    open         a good one after the cool-down, if slow    half open
    half open    a failure                                  open
    half open    a slow one at the window's end             open
    half open    a good one at the window's end             closed
"""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from statistics import median

from proxy.commands.command import Command, KeysUnknownError
from proxy.commands.over_nodes import Destination
from proxy.commands.slots import slot_of
from proxy.commands.table import Spec
from proxy.hotpath.plan.leased_tokens import UNLIMITED, LeasedTokens, TokenSet
from proxy.rules.context import NO_SLOT, Context
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
_GOOD_IN_A_ROW = 3
"""Observations that prove that a node that was failing is well."""
_ALL = frozenset({Destination.ALL_PRIMARIES, Destination.ALL_NODES, Destination.WALK})


@dataclass(frozen=True, slots=True)
class BreakerSettings(RuleSettings):
    """All in seconds; without `slower_than`, slow observations do not open the circuit."""

    failing_for: float = 2.0
    slower_than: float | None = None
    window: float = 5.0
    cool_down: float = 10.0

    @property
    def beyond_acl(self) -> str:
        return "an ACL does not know how Redis is"

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


class Circuit:
    """The circuit of one worker for a node, from the worker's observations. Times are in seconds."""

    def __init__(self, settings: BreakerSettings) -> None:
        self.state = CircuitState.CLOSED
        self.why = ""
        self.until = 0.0
        self._settings = settings
        self._failing_since: float | None = None
        self._since = 0.0
        self._observed: deque[tuple[float, float]] = deque()
        self._asked = 0
        self._good_in_a_row = 0
        self._failed = False
        """Whether it opened for a failure."""

    @property
    def restricts(self) -> bool:
        """Whether some commands are kept from Redis now."""
        return self.state is not CircuitState.CLOSED

    @property
    def description(self) -> str:
        """The state, for people."""
        return f"{self.state.value}: {self.why}" if self.state is CircuitState.OPEN else self.state.value

    def excuse(self) -> None:
        """The server says that it is loading: it neither fails nor is well."""
        self._failing_since = None
        self._good_in_a_row = 0

    def observe(self, now: float, took: float | None, *, may_open: bool = True) -> None:
        """Note an observation; None is a failure. Unless it ``may_open``, somebody else waits for the node."""
        if took is None:
            self._failing_since = now if self._failing_since is None else self._failing_since
        else:
            self._failing_since = None
            self._note(now, took)
        self._good_in_a_row = self._good_in_a_row + 1 if took is not None and not self._too_long(took) else 0
        match self.state:
            case CircuitState.CLOSED:
                if may_open and (self._failing(now) or (self._seen_a_window(now) and self._slow())):
                    self._open(now, failed=self._failing(now))
            case CircuitState.OPEN:
                if self._failed:
                    self._close_if_well(now)
                elif now >= self.until:
                    self._look_again(now, took)
            case CircuitState.HALF_OPEN:
                if may_open and (took is None or (self._seen_a_window(now) and self._slow())):
                    self._open(now, failed=took is None)
                elif took is not None and self._seen_a_window(now):
                    self._begin(CircuitState.CLOSED, now)

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

    def _close_if_well(self, now: float) -> None:
        if self._good_in_a_row >= _GOOD_IN_A_ROW:
            self._begin(CircuitState.CLOSED, now)
        elif self._good_in_a_row == 0:
            self.until = now + _NEXT_LOOK

    def _look_again(self, now: float, took: float | None) -> None:
        if took is not None and not self._too_long(took):
            self._begin(CircuitState.HALF_OPEN, now)
            self.until = now + self._settings.window
        else:
            self.until = now + min(self._settings.cool_down, _NEXT_LOOK)

    def _open(self, now: float, *, failed: bool) -> None:
        slower_than = self._settings.slower_than
        self._failed = failed or slower_than is None
        self.why = "Redis is failing" if slower_than is None or failed else _slower(slower_than)
        self._begin(CircuitState.OPEN, now)
        self.until = now + (_NEXT_LOOK if self._failed else self._settings.cool_down)

    def lets_through(self) -> bool:
        """Whether a command may go to Redis; each call counts as a command."""
        if self.state is CircuitState.HALF_OPEN:
            self._asked += 1
            return self._asked % _TRIALS == 0
        return self.state is CircuitState.CLOSED


def _slower(than: float) -> str:
    return f"Redis is slower than {than * 1000:.0f} ms"


class Circuits(ObservingState):
    """The circuits of all nodes, by their numbers. While one is not closed, ``token_set`` is empty: each command is
    judged."""

    def __init__(self, settings: BreakerSettings) -> None:
        self._settings = settings
        self._by_node: dict[int, Circuit] = {}
        self._commands = LeasedTokens(UNLIMITED)
        self.token_set = TokenSet(self._commands, LeasedTokens(UNLIMITED), LeasedTokens(UNLIMITED))

    @property
    def restricts(self) -> bool:
        return any(circuit.restricts for circuit in self._by_node.values())

    def description(self, node: int) -> str:
        return self._of(node).description

    def observe(self, node: int, now: float, took: float | None, *, may_open: bool = True) -> None:
        self._of(node).observe(now, took, may_open=may_open)
        self._commands.left = 0 if self.restricts else UNLIMITED

    def excuse(self, node: int) -> None:
        self._of(node).excuse()

    def retain(self, nodes: Collection[int]) -> None:
        for node in self._by_node.keys() - set(nodes):
            del self._by_node[node]
            self._commands.left = 0 if self.restricts else UNLIMITED

    def _of(self, node: int) -> Circuit:
        if node not in self._by_node:
            self._by_node[node] = Circuit(self._settings)
        return self._by_node[node]

    def refusing(self, command: Command, slot: int, tenant: bytes = b"") -> Circuit | None:
        """The circuit by which this command is refused; None if it may go to Redis. ``slot`` is its transaction's, and
        ``tenant`` the prefix of its keys."""
        needed = self._needed(command, slot, tenant)
        if needed is None:
            circuits = [*self._by_node.values()]
            some = any(not circuit.restricts for circuit in circuits) or any(map(Circuit.lets_through, circuits))
            return None if some or not circuits else circuits[0]
        return next((circuit for circuit in needed if not circuit.lets_through()), None)

    def _needed(self, command: Command, slot: int, tenant: bytes) -> list[Circuit] | None:
        # The circuits of all nodes that the command needs; None where any node will do.
        if self.owner is None or command.spec.over_nodes.destination in _ALL:
            return [*self._by_node.values()]
        try:
            slots = {slot_of(tenant + key.name) for key in command.keys} or ({slot} - {NO_SLOT})
        except KeysUnknownError:
            return [*self._by_node.values()]
        if not slots:
            return None
        return [self._by_node[node] for node in set(map(self.owner, slots)) if node in self._by_node]


class Breaker(Rule):
    """The rule that refuses commands by the state of a circuit."""

    needs = Needs(place=True, history=True, in_scripts=InScripts.NOTHING)

    def __init__(self, name: str, settings: BreakerSettings, wording: Wording, binding: Binding) -> None:
        self.name = name
        self._refusals = Refusals(name, wording, binding)
        self._circuits = binding.memory.of(name, settings, lambda: Circuits(settings))
        self._presence = Presence(self._circuits.token_set)

    def touches(self, spec: Spec) -> bool:
        """All commands but those about the connection or a transaction."""
        return not is_free(spec)

    def judge(self, command: Command, context: Context) -> Verdict:
        """Refuse while the circuit of a node that the command needs is not closed."""
        if not self._circuits.restricts:
            return PASS
        circuit = self._circuits.refusing(command, context.slot, context.tenant)
        if circuit is None:
            return PASS
        return self._refusals.of(circuit.why, "", retry=max(0.0, circuit.until - context.now))

    def enter(self, _context: Context) -> Presence:
        """All clients have one token set, which is empty while a circuit is not closed."""
        return self._presence

    def lower(self, _spec: Spec, lowering: Lowering) -> None:
        """The plan passes a command if the token set can pay for it."""
        lowering.spend()
