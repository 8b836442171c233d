"""A client under the policy: who it is, which regime holds for it, and what that decides about a command."""

from collections.abc import Mapping

from proxy.commands.command import Command
from proxy.policy.apps import Caller
from proxy.policy.decision import Decision
from proxy.rules.context import NO_SLOT, Context
from proxy.rules.limits.membership import Standing
from proxy.rules.limits.token_buckets import Advance
from proxy.rules.verdict import Refuse, closes
from proxy.session import transaction
from proxy.session.gate import Gate, PoolKey, Regime
from proxy.session.outlet import Outlet
from proxy.wire.request import Limits


class Judged(Outlet):
    """One client, as rules see it. ``key`` is the pool that it belongs to: user, database and protocol."""

    __slots__ = ("address", "certificate", "key", "listener", "name", "regime", "slot", "stale", "standing")

    def __init__(self, gate: Gate, home: PoolKey, limits: Limits, listener: str) -> None:
        regime = gate.regime(home, Caller(home.user_name, listener=listener))
        super().__init__(gate, regime.terms, limits)
        self.key = home
        self.name = b""
        self.listener = listener
        self.certificate = ""
        self.address = ""
        self.regime: Regime = regime
        self.stale = False
        self.slot = NO_SLOT
        self.standing: Standing | None = None

    def context(self, no_wait: str = "", advances: Mapping[str, Advance] | None = None) -> Context:
        """This client, now; ``no_wait`` says why no procedure may run, ``advances`` what is paid already."""
        running = self.transaction
        return Context(
            self.key.user_name,
            self.name.decode("utf-8", "replace"),
            self.key.database if running is None else running.database,
            running is not None,
            self.gate.now(),
            self.gate.chance,
            self.regime.policy.app,
            slot=self.slot,
            address=self.address.rpartition(":")[0] or self.address,
            no_wait="it is inside MULTI" if running is not None else no_wait,
            advances=advances,
        )

    def judge(self, command: Command, no_wait: str = "", advances: Mapping[str, Advance] | None = None) -> Decision:
        """What the policy decides; what its rules said is reported."""
        context = self.context(no_wait, advances)
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
            for key in command.known_keys:
                counters.add(key.name, 0, len(key.name), key.write)

    def caller(self) -> Caller:
        """What is known of this client."""
        name = self.name.decode("utf-8", "replace")
        return Caller(self.key.user_name, name, self.listener, self.certificate)

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
