"""One client's session: each command is judged, then routed to where its state allows.

What waits (``WAIT``: for an upstream, for replies, for another session's answer) comes back by ``arrived``. It has been
judged already, and is not judged twice.
"""

from typing import TYPE_CHECKING

from proxy.commands.command import Command
from proxy.commands.table import State
from proxy.hotpath.intake import ENDED, TAKEN, WAIT, Intake
from proxy.hotpath.ledger import EDIT, HIDE, LOCAL, MEASURE, REPLACE
from proxy.policy.apps import Caller
from proxy.policy.compile import Decision
from proxy.rules.context import NO_SLOT, Context
from proxy.rules.script_memory import ScriptKey
from proxy.rules.standing import Standing
from proxy.rules.verdict import Answer, Refuse, ReplyEdit, Rewrite, Verdict, closes
from proxy.session import (
    company,
    handshake,
    names,
    own,
    pinned,
    procedure,
    scripts,
    silence,
    streaming,
    subscription,
    switching,
    transaction,
)
from proxy.session.gate import Gate, PoolKey, PrivateLedger, Regime
from proxy.session.item import Item
from proxy.session.measuring import Measurement
from proxy.session.poison import POISON
from proxy.wire.encode import encode_command
from proxy.wire.request import Limits, Request

_DEFAULT_USER = "default"

if TYPE_CHECKING:
    from proxy.session.company import Deferred
    from proxy.session.subscription import Subscriptions
    from proxy.session.transaction import Transaction


class Session(Intake):
    """What one client may do now, and where its commands go."""

    __slots__ = (
        "address",
        "blocked",
        "certificate",
        "covered",
        "deferred",
        "gate",
        "held",
        "home",
        "inquiry",
        "key",
        "library",
        "library_version",
        "lingering",
        "listener",
        "local",
        "measurement",
        "name",
        "permanent",
        "pinned",
        "probe",
        "regime",
        "replies",
        "resolved",
        "slot",
        "sought",
        "stale",
        "standing",
        "subscriptions",
        "transaction",
        "unaccompanied",
        "unpinning",
        "watching",
    )

    def __init__(self, gate: Gate, home: PoolKey, limits: Limits, listener: str = "") -> None:
        regime = gate.regime(home, Caller(home.user or _DEFAULT_USER, listener=listener))
        super().__init__(regime.terms, limits)
        self.gate = gate
        self.home = home
        self.key = home
        self.regime: Regime = regime
        self.stale = False
        self.pinned: PrivateLedger | None = None
        self.held: Item | None = None
        self.inquiry: procedure.Inquiry | None = None
        self.resolved: Decision | None = None
        self.covered: bool | None = None
        self.transaction: Transaction | None = None
        self.subscriptions: Subscriptions | None = None
        self.watching = False
        self.slot = NO_SLOT
        self.deferred: list[Deferred] = []
        self.unaccompanied = ""
        self.sought: frozenset[ScriptKey] = frozenset()
        self.blocked = False
        self.permanent = False
        self.lingering = False
        self.unpinning = False
        self.replies = silence.ON
        self.probe: bytes | None = None
        self.name = b""
        self.listener = listener
        self.certificate = ""
        self.library = b""
        self.library_version = b""
        self.local = 0
        self.address = ""
        self.standing: Standing | None = None
        self.measurement: Measurement | None = None

    # Judging

    def handle(self, command_id: int, data: bytes, request: Request) -> int:
        """Judge the command that the intake stopped at, and route it."""
        if self._waits():
            return WAIT
        held = self.held
        if held is not None:
            self.held = None
            return self._route(held, data, request.end)
        table = self.regime.table
        command = Command(table, request.arguments(), table.specs[command_id])
        if self.sampled:
            size = request.end - request.start
            self.measurement = Measurement(self.gate, self, command, self.sampled, size, self.gate.clock())
            self.sampled = 0
        return self._take(command, data[request.start : request.end], data, request.end, request)

    def refused(self, command_id: int, request: Request) -> None:
        """The plan refuses a command by itself: somebody may want to know whose it is."""
        if self.gate.looks():
            table = self.regime.table
            command = Command(table, request.arguments(), table.specs[command_id])
            self.gate.witness(self.regime.policy.lowered.get(command_id, ()), command, self)

    def handle_inline(self, words: list[bytes], size: int) -> int:
        """Judge an inline command as the command that it is; it travels as an array."""
        if self._waits():
            return WAIT
        held = self.held
        if held is not None:
            self.held = None
            return self._route(held, b"", 0)
        return self._take(Command(self.regime.table, words), encode_command(words), b"", 0)

    def _waits(self) -> bool:
        # Whether the next command has to wait, for replies or for a procedure, before anything is asked about it.
        if self.owed >= self.terms.window:
            self.stalled = True
            return True
        if self.inquiry is not None:
            self.halted = True
            return True
        return False

    def handle_large(self, data: bytes, request: Request) -> int:
        """Stream a request that is too large to collect."""
        return streaming.begin(self, data, request)

    def malformed(self, request: Request) -> None:
        """Answer in the engine's own words, behind what is owed, and close."""
        self.answer(self.gate.protocol_error(request.error, request.error_byte))
        self.close_when_paid("protocol_error")

    def _take(self, command: Command, raw: bytes, data: bytes, end: int, request: Request | None = None) -> int:
        decision, self.resolved = self.resolved, None
        follows = bool(self.regime.policy.scripts)
        if decision is None:
            if follows and scripts.waits(self, command):
                return WAIT
            decision = self.judge(command)
        if decision.pause is not None or decision.asides:
            decision = procedure.settle(self, command, decision)
            if decision is None:
                return WAIT
        verdict = decision.verdict
        if type(verdict) is Refuse:
            self._tell_refused()
            self.refuse(verdict.error)
            return self.end_if_closed_by(verdict)
        if type(verdict) is Answer:
            self._tell_refused()
            self.answer(verdict.reply)
            return TAKEN
        if type(verdict) is Rewrite:
            rewritten = Command(self.regime.table, verdict.argv, verdict.spec)
            self.count_keys(rewritten)
            raw = encode_command(verdict.argv)
            return self._route(Item(rewritten, raw, verdict.edit, decision.followings), data, end)
        if request is None:
            self.count_keys(command)
        elif self.regime.policy.policy.count_keys:
            terms = self.terms
            found = terms.keys.find(command.spec.id, request)
            terms.plan.count(request, data, terms.keys, found, terms.counters)
        edit = scripts.edit_for(self, command) if follows else None
        return self._route(Item(command, raw, edit, decision.followings), data, end)

    def _tell_refused(self) -> None:
        if self.measurement is not None:
            self.measurement.refused = True
            self.measurement.without_reply()
            self.measurement = None

    def end_if_closed_by(self, verdict: Verdict) -> int:
        """Close the client if the verdict says so. A transaction is ended first, as others may share its upstream."""
        if not closes(verdict) or self.transaction is not None:
            return TAKEN
        self.close_when_paid("limited")
        return ENDED

    def context(self, no_wait: str = "") -> Context:
        """This client, now; ``no_wait`` says why no procedure may run."""
        return Context(
            self.key.user or _DEFAULT_USER,
            self.name.decode("utf-8", "replace"),
            self.key.database,
            self.transaction is not None,
            self.gate.now(),
            self.gate.chance,
            self.regime.policy.app,
            slot=self.slot,
            address=self.address.rpartition(":")[0] or self.address,
            no_wait="it is inside MULTI" if self.transaction is not None else no_wait,
        )

    def judge(self, command: Command, no_wait: str = "") -> Decision:
        """What the policy decides; what its rules said is reported."""
        context = self.context(no_wait)
        if self.regime.policy.limits:
            self._stand(context)
        decision = self.regime.policy.judge(command, context)
        if context.surplus and self.standing is not None and not closes(decision.verdict):
            self.standing.told(hit.rule for hit in decision.hits)
            self.purses = self.standing.purses
        if decision.hits:
            self.gate.report(decision.hits, command, self)
        if self.regime.policy.follows_slots and self.slot == NO_SLOT and type(decision.verdict) is not Refuse:
            self.slot = transaction.slot_of(self, command)
        return decision

    def _stand(self, context: Context) -> None:
        if self.standing is None:
            self.standing = Standing(self.regime.policy.limits, context, self)
            self.purses = self.standing.purses
        context.surplus = self.standing.surplus

    def reconsider(self) -> None:
        """Who the client is has changed, or the policy: other limits may hold."""
        self.purses = None
        if self.standing is not None:
            self.standing.leave()
            self.standing = None

    def count_keys(self, command: Command) -> None:
        """Count the keys of a command that goes on."""
        if self.regime.policy.policy.count_keys:
            counters = self.terms.counters
            for key in command.keys:
                counters.add(key.name, 0, len(key.name), key.write)

    # Routing

    def _route(self, item: Item, data: bytes, end: int) -> int:
        state = item.command.spec.state
        if self.measurement is not None:
            item.measurement, self.measurement = self.measurement, None
            if self.transaction is not None or state is not State.POOL or self.replies != silence.ON:
                item.measurement.without_reply()
                item.measurement = None
        if self.transaction is not None and state not in transaction.ENDS_OR_LEAVES:
            return transaction.queue(self, item)
        # The transaction's look-ahead is the only handler that reads on.
        outcome = transaction.multi(self, item, data, end) if state is State.MULTI else _HANDLERS[state](self, item)
        if outcome == WAIT:
            self.held = item
        return outcome

    def forward(self, item: Item) -> int:
        """A command that needs no connection state."""
        ledger = switching.to_shared(self, item.command.spec.lane)
        if ledger is None:
            return WAIT
        self.dispatch(item)
        return TAKEN

    def dispatch(self, item: Item) -> None:
        """Send a command to the current upstream, with all that goes with it."""
        measurement = item.measurement
        if item.followings:
            if measurement is not None:
                measurement.without_reply()
            company.send(self, item)
        elif measurement is None:
            self.submit(item.raw, item.edit)
        else:
            self._submit_measured(item.raw, item.edit, measurement)

    def _submit_measured(self, raw: bytes, edit: ReplyEdit | None, measurement: Measurement) -> None:
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

    # Upstreams: what changes in them, and in what is waited for

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

    def settled(self) -> None:
        """Nothing is owed: a private upstream whose state has ended goes back, and what waited goes on."""
        self.attentive = False
        self.blocked = False
        if self.subscriptions is not None:
            self.subscriptions.asked = 0
            if self.subscriptions.empty():
                self._stop_listening()
        if self.deferred and company.catch_up(self):
            self.attentive = True
        elif self.pinned is not None and not self.lingering and not switching.keeps_pin(self):
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
            switching.settle_pin(self)

    def let_go(self) -> bool:
        """The private upstream is lost: whether nothing of this client is lost with it."""
        if self.owed > 0 or switching.keeps_pin(self) or self.stream is not None or self.key.user is not None:
            return False
        self.unpin()
        return True

    def caller(self) -> Caller:
        """What is known of this client."""
        name = self.name.decode("utf-8", "replace")
        return Caller(self.key.user or _DEFAULT_USER, name, self.listener, self.certificate)

    def rename(self, name: bytes) -> None:
        """The client has another name, by which it may be of another app."""
        if name != self.name:
            self.name = name
            self.reconsider()
            self.adopt()

    def adopt(self) -> None:
        """Take over the policy that is in force now; a transaction keeps the one that it began with."""
        if self.transaction is not None:
            self.stale = True
            return
        self.stale = False
        self.reconsider()
        self.regime = self.gate.regime(self.key, self.caller())
        self.terms = self.regime.terms
        self.simple = self.terms.pooled if self.pinned is None else self.terms.pinned

    def depart(self) -> None:
        """The client has left: its debts become hidden, its private upstream is closed."""
        self.gone = True
        self.halted = True
        self.reconsider()
        self.pending = None
        self.assembly = None
        self.held = None
        if self.inquiry is not None:
            self.inquiry.cancel()
            self.inquiry = None
        if self.deferred:
            company.give_up(self)
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
            elif self.owed > 0 or switching.keeps_pin(self):
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



_HANDLERS = {
    State.POOL: Session.forward,
    **handshake.HANDLERS,
    **names.HANDLERS,
    **own.HANDLERS,
    **transaction.HANDLERS,
    **subscription.HANDLERS,
    **pinned.HANDLERS,
}
