"""One client's session: each command is judged, then routed to where its state allows.

A client has at most one upstream with open debts. It is *pooled* (``ledger`` is a shared upstream, and the intake
forwards plain commands by itself) or *pinned* (``pinned`` is an upstream of its own). Before it changes upstreams, all
replies that it is owed must have come: the command waits (``WAIT``), and ``settled`` brings it again. A command that
waits has been judged already, and is not judged twice.

      pooled ──(MULTI, WATCH, SUBSCRIBE, BLPOP, CLIENT ID …)──> pinned
        ^                                                         │
        └──────(the state has ended and nothing is owed)──────────┘
"""

from typing import TYPE_CHECKING, Any

from proxy.commands.command import Command
from proxy.commands.table import Lane, State
from proxy.hotpath.intake import TAKEN, WAIT, Intake
from proxy.hotpath.ledger import EDIT, HIDE, LOCAL, REPLACE, Ledger
from proxy.rules.context import Context
from proxy.rules.verdict import Refuse, ReplyEdit, Rewrite
from proxy.session import handshake, pinned, silence, streaming, subscription, transaction
from proxy.session.gate import Gate, PoolKey, PrivateLedger, Regime
from proxy.session.item import Item
from proxy.session.poison import POISON
from proxy.wire.encode import encode_command
from proxy.wire.request import Limits, Request

if TYPE_CHECKING:
    from proxy.session.subscription import Subscriptions
    from proxy.session.transaction import Transaction


class Session(Intake):
    """What one client may do now, and where its commands go."""

    __slots__ = (
        "blocked",
        "covered",
        "gate",
        "held",
        "home",
        "key",
        "library",
        "library_version",
        "lingering",
        "local",
        "name",
        "permanent",
        "pinned",
        "probe",
        "regime",
        "replies",
        "stale",
        "subscriptions",
        "transaction",
        "unpinning",
        "watching",
    )

    def __init__(self, gate: Gate, home: PoolKey, limits: Limits) -> None:
        regime = gate.regime(home)
        super().__init__(regime.terms, limits)
        self.gate = gate
        self.home = home
        self.key = home
        self.regime: Regime = regime
        self.stale = False
        self.pinned: PrivateLedger | None = None
        self.held: Item | None = None
        self.covered: bool | None = None
        self.transaction: Transaction | None = None
        self.subscriptions: Subscriptions | None = None
        self.watching = False
        self.blocked = False
        self.permanent = False
        self.lingering = False
        self.unpinning = False
        self.replies = silence.ON
        self.probe: bytes | None = None
        self.name = b""
        self.library = b""
        self.library_version = b""
        self.local = 0

    # Judging

    def handle(self, command_id: int, data: bytes, request: Request) -> int:
        """Judge the command that the intake stopped at, and route it."""
        if self.owed >= self.terms.window:
            self.stalled = True
            return WAIT
        held = self.held
        if held is not None:
            self.held = None
            return self._route(held, data, request.end)
        table = self.regime.table
        command = Command(table, request.arguments(), table.specs[command_id])
        return self._take(command, data[request.start : request.end], data, request.end, request)

    def handle_inline(self, words: list[bytes], size: int) -> int:
        """Judge an inline command as the command that it is; it travels as an array."""
        if self.owed >= self.terms.window:
            self.stalled = True
            return WAIT
        held = self.held
        if held is not None:
            self.held = None
            return self._route(held, b"", 0)
        return self._take(Command(self.regime.table, words), encode_command(words), b"", 0)

    def handle_large(self, data: bytes, request: Request) -> int:
        """Stream a request that is too large to collect."""
        return streaming.begin(self, data, request)

    def malformed(self, request: Request) -> None:
        """Answer in the engine's own words, behind what is owed, and close."""
        self.answer(self.gate.protocol_error(request.error, request.error_byte))
        self.close_when_paid("protocol_error")

    def _take(self, command: Command, raw: bytes, data: bytes, end: int, request: Request | None = None) -> int:
        decision = self.judge(command)
        verdict = decision.verdict
        if type(verdict) is Refuse:
            self.refuse(verdict.error)
            return TAKEN
        if type(verdict) is Rewrite:
            rewritten = Command(self.regime.table, verdict.argv, verdict.spec)
            self.count_keys(rewritten)
            return self._route(Item(rewritten, encode_command(verdict.argv), verdict.edit), data, end)
        if request is None:
            self.count_keys(command)
        elif self.regime.policy.policy.count_keys:
            terms = self.terms
            found = terms.keys.find(command.spec.id, request)
            terms.plan.count(request, data, terms.keys, found, terms.counters)
        return self._route(Item(command, raw), data, end)

    def judge(self, command: Command) -> Any:
        """What the policy decides; what its rules said is reported."""
        context = Context(
            self.key.user or "default",
            self.name.decode("utf-8", "replace"),
            self.key.database,
            self.transaction is not None,
            self.gate.now(),
            _no_chance,
        )
        decision = self.regime.policy.judge(command, context)
        if decision.hits:
            self.gate.report(decision.hits, command, self)
        return decision

    def count_keys(self, command: Command) -> None:
        """Count the keys of a command that goes on."""
        if self.regime.policy.policy.count_keys:
            counters = self.terms.counters
            for key in command.keys:
                counters.add(key.name, 0, len(key.name), key.write)

    # Routing

    def _route(self, item: Item, data: bytes, end: int) -> int:
        state = item.command.spec.state
        if self.transaction is not None and state not in transaction.ENDS_OR_LEAVES:
            return transaction.queue(self, item)
        # The transaction's look-ahead is the only handler that reads on.
        outcome = transaction.multi(self, item, data, end) if state is State.MULTI else _HANDLERS[state](self, item)
        if outcome == WAIT:
            self.held = item
        return outcome

    def forward(self, item: Item) -> int:
        """A command that needs no connection state."""
        ledger = self.to_shared(item.command.spec.lane)
        if ledger is None:
            return WAIT
        self.submit(item.raw, item.edit)
        return TAKEN

    def submit(self, raw: bytes, edit: ReplyEdit | None = None) -> None:
        """Send one command to the current upstream and owe its reply, unless CLIENT REPLY has silenced it."""
        ledger = self.ledger
        assert ledger is not None
        self.forwarded += 1
        if self.replies != silence.ON and silence.falls_on(self):
            ledger.send(raw)
            ledger.commands += 1
        elif edit is None:
            ledger.submit(self, raw, 1)
        else:
            self.owe(raw, EDIT, edit)

    def owe(self, raw: bytes, fate: int, payload: object, due: int = 1) -> None:
        """Send one command whose reply has a fate of its own."""
        ledger = self.ledger
        assert ledger is not None
        ledger.send(raw)
        ledger.commands += 1
        ledger.owe(self, due, fate, payload)

    def hide(self, raw: bytes) -> None:
        """Send a command of the proxy's own on the private upstream; its reply is dropped."""
        assert self.pinned is not None
        self.pinned.send(raw)
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
            self.flush()
        else:
            assert self.ledger is not None
            self.ledger.owe(self, 1, LOCAL, payload)

    def refuse(self, error: bytes) -> None:
        """Answer a refusal; inside MULTI, so that Redis aborts the transaction as for any bad command."""
        if self.transaction is None:
            self.answer(error)
            return
        ledger = self.ledger
        assert ledger is not None
        ledger.send(POISON)
        if not silence.falls_on(self):
            ledger.owe(self, 1, REPLACE, error)

    # Upstreams

    def to_shared(self, lane: Lane) -> Ledger | None:
        """The upstream for a command without state; None when the command has to wait."""
        if not self.gate.pooling:
            self.permanent = True
            return self.to_private()
        current = self.ledger
        if self.pinned is not None:
            if self.keeps_pin() or (self.owed > 0 and not self.unpinning):
                return current
            if self.owed > 0:
                self.wait_until_settled()
                return None
            self.unpin()
            current = None
        # A client with debts on the slow lane stays there: it never has debts on two.
        stays = self.direct == (lane is Lane.FAST) or (not self.direct and self.owed > 0)
        if stays and current is not None and current.usable and not current.closed:
            return current
        if self.owed > 0:
            self.wait_until_settled()
            return None
        found = self.gate.shared(self.key, lane)
        if found is None:
            self.halted = True
            self.gate.await_shared(self, self.key, lane)
            return None
        self.ledger = found
        self.direct = lane is Lane.FAST
        return found

    def to_private(self) -> PrivateLedger | None:
        """An upstream of this client's own; None when the command has to wait."""
        self.lingering = False
        if self.pinned is not None:
            self.unpinning = False
            self.direct = self.replies == silence.ON
            return self.pinned
        if self.owed > 0:
            self.wait_until_settled()
            return None
        found = self.gate.private(self.key)
        if found is None:
            self.halted = True
            self.gate.await_private(self, self.key)
            return None
        self.pin(found)
        return found

    def pin(self, ledger: PrivateLedger) -> None:
        """Take a private upstream, and make it known to Redis by this client's name."""
        self.unpinning = False
        self.pinned = ledger
        self.ledger = ledger
        ledger.owner = self
        self.simple = self.terms.pinned
        self.direct = self.replies == silence.ON
        for command in handshake.introduce(self, ledger):
            self.hide(encode_command(command))

    def unpin(self) -> None:
        """Give the private upstream back: it holds nothing of this client any more."""
        ledger = self.pinned
        if ledger is None:
            return
        self.lingering = False
        self.unpinning = False
        self.pinned = None
        self.ledger = None
        self.direct = False
        self.simple = self.terms.pooled
        self.subscriptions = None
        ledger.owner = None
        ledger.listener = None
        ledger.arrays = False
        if not ledger.closed:
            self.gate.release(ledger)

    def keeps_pin(self) -> bool:
        """Whether the private upstream still holds state of this client."""
        return (
            self.permanent
            or self.watching
            or self.transaction is not None
            or (self.subscriptions is not None and not self.subscriptions.empty())
        )

    def wait_until_settled(self) -> None:
        """Read no further until nothing is owed."""
        self.halted = True
        self.attentive = True

    def settled(self) -> None:
        """Nothing is owed: a private upstream whose state has ended goes back, and what waited goes on."""
        self.attentive = False
        self.blocked = False
        if self.subscriptions is not None:
            self.subscriptions.asked = 0
            if self.subscriptions.empty():
                self._stop_listening()
        if self.pinned is not None and not self.lingering and not self.keeps_pin():
            self.unpin()
        self.arrived()

    def _stop_listening(self) -> None:
        self.subscriptions = None
        if self.pinned is not None:
            self.pinned.listener = None
            self.pinned.arrays = False

    def arrived(self) -> None:
        """What this session waited for may be there."""
        if self.halted and not self.gone:
            self.halted = False
            self.resume()

    def linger_over(self) -> None:
        """The login is over and nothing followed: the upstream goes to the pool."""
        if self.lingering and self.pinned is not None:
            self.lingering = False
            self.settle_pin()

    def settle_pin(self) -> None:
        """Give the private upstream back as soon as nothing holds it."""
        if self.pinned is None:
            return
        if self.owed > 0:
            # Its next command waits for that, or a client that always has debts would never go back.
            self.attentive = True
            self.unpinning = not self.keeps_pin()
            self.direct = self.direct and not self.unpinning
        elif not self.keeps_pin():
            self.unpin()

    def cut(self, error: bytes) -> None:
        """Close the private upstream, on which a command stands unfinished; its state, if any, is lost with it."""
        ledger = self.pinned
        assert ledger is not None
        stateful = self.keeps_pin()
        if self.owed > 0 or stateful:
            # Replies that were asked for before are lost as well: the client is told by the close.
            if self.owed == 0:
                self.answer(error)
            self.close("refused_while_streaming")
            return
        self.pinned = None
        self.ledger = None
        self.direct = False
        self.simple = self.terms.pooled
        ledger.owner = None
        self.gate.discard(ledger)

    def read_on(self, following: bytes) -> None:
        """Go on with the bytes behind a streamed request."""
        if following:
            self.pending = following
        if not self.running:
            self.resume()

    def let_go(self) -> bool:
        """The private upstream is lost: whether nothing of this client is lost with it."""
        if self.owed > 0 or self.keeps_pin() or self.stream is not None or self.key.user is not None:
            return False
        self.unpin()
        return True

    def adopt(self) -> None:
        """Take over the policy that is in force now; a transaction keeps the one that it began with."""
        if self.transaction is not None:
            self.stale = True
            return
        self.stale = False
        self.regime = self.gate.regime(self.key)
        self.terms = self.regime.terms
        self.simple = self.terms.pooled if self.pinned is None else self.terms.pinned

    def depart(self) -> None:
        """The client has left: its debts become hidden, its private upstream is closed."""
        self.gone = True
        self.halted = True
        self.pending = None
        self.assembly = None
        self.held = None
        if self.probe is not None:
            self.gate.end_probe(self.probe, False)
            self.probe = None
        if self.transaction is not None and self.pinned is None and self.ledger is not None:
            # Only a fault can end a session here: what it has begun on a shared upstream must not go on.
            self.gate.discard(self.ledger)
        ledger = self.pinned
        self.pinned = None
        if ledger is not None and not ledger.closed:
            ledger.owner = None
            if self.blocked or self.stream is not None:
                self.gate.discard(ledger)
            elif self.owed > 0 or self.keeps_pin():
                self.gate.dismiss(ledger)
            else:
                ledger.listener = None
                ledger.arrays = False
                self.gate.release(ledger)

    # What the connection does

    def close(self, cause: str) -> None:
        """Close the client now; ``cause`` is the label that metrics show."""
        raise AssertionError("the connection decides")

    def close_when_paid(self, cause: str) -> None:
        """Close the client as soon as nothing is owed."""
        raise AssertionError("the connection decides")


def _no_chance() -> float:
    return 0.5


_HANDLERS = {
    State.POOL: Session.forward,
    **handshake.HANDLERS,
    **transaction.HANDLERS,
    **subscription.HANDLERS,
    **pinned.HANDLERS,
}
