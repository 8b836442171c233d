"""Histories of two clients of a cluster, made from a seed: what they send, what becomes of the nodes, of connections
and of the policy, in which pieces and in which order all of it comes, and what must hold whatever it was.

Each step of a history has a generator of its own, so that what is left of a history without some of its steps happens
as before. ``shortest`` uses that: it leaves out all steps without which a history still goes wrong.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

from proxy.hotpath.cluster.router import Router
from proxy.policy.model import TRANSPARENT
from proxy.session.ports.pool_key import user_named
from tests.hotpath.routed import owners
from tests.policy.given import policy
from tests.session.answering import SLOTS_OF_TAGS, USER, Answered, Answering, AnsweringRoute, KnownNodes
from tests.session.clustered import NODES
from tests.session.given import LARGE, Upstream, call
from tests.session.speaker import Speaker

STEPS = 70
ROUNDS = 400
"""So often all that can happen happens at the end. Whoever waits then waits for ever."""

POLICIES = [
    TRANSPARENT,
    policy("""
rules:
  lifetimes: {lifetime: {default: 5m, types: [string, hash, list], keys: "{a}*"}, mode: enforce}
  strict: {lifetime: {default: 5m, without_proof: refuse, keys: "{c}*"}, mode: enforce}
  slides: {lifetime: {default: 5m, sliding: true, keys: "{b}*"}, mode: enforce}
"""),
    policy("""
defaults: {mode: enforce}
rules:
  no: {refuse: [ECHO]}
  unlink: {replace: {DEL: UNLINK}}
"""),
]

RIGHTS = (
    *("multi", "discard", "unwatch", "watch", "reset", "exists", "ttl", "expire", "pubsub", "spublish"),
    "hello",
)
"""Commands of which a user without rights may not run two: those that Keyrail sends of its own, or in another way."""


class History:
    """Two clients, the nodes and what happens to them. ``lines`` tell it."""

    def __init__(self, seed: int, *, all_rights: bool = True) -> None:
        self.seed = seed
        self.all_rights = all_rights
        self.chance = random.Random(f"{seed}")
        self.protocol = self.chance.choice([2, 2, 3])
        self.route = AnsweringRoute(self.chance.choice(POLICIES))
        self.route.known_users.add(user_named(USER.encode()))
        forbidden = [] if all_rights else self.chance.sample(RIGHTS, 2)
        self.answering = Answering(self.chance, forbidden)
        self.nodes = KnownNodes()
        self.router = Router(owners(len(NODES)))
        self.clients = [Speaker(self.route, self.nodes, self.router, self.protocol) for _ in range(2)]
        self.connections: dict[Upstream, Answered] = {}
        self.keys = count(1)
        self.lines: list[str] = [f"RESP{self.protocol}, not allowed: {forbidden}"]

    def play(self, steps: Sequence[int]) -> None:
        """Run these steps of it, and let all that is pending come to an end."""
        for step in steps:
            self.chance.seed(f"{self.seed} {step}")
            self.step()
            self.listen()
        self.settle()
        self.leave()

    # What happens

    def step(self) -> None:
        client = self.chance.choice(self.clients)
        kinds: list[tuple[float, Callable[[Speaker], None]]] = [
            (0.005, self.goes_away),
            (0.255, self.speaks),
            (0.15, lambda _: self.late_calls_come()),
            (0.37, lambda _: self.nodes_answer()),
            (0.1, lambda _: self.time_passes(self.chance.choice([0.01, 0.1, 0.5, 3]))),
            (0.12, lambda _: self.something_changes()),
        ]
        happens = self.chance.choices([each for _, each in kinds], [weight for weight, _ in kinds])[0]
        if not client.is_leaving():
            happens(client)
        elif not client.gone:
            self.nodes_answer()

    def goes_away(self, client: Speaker) -> None:
        self.tell(client, "has gone")
        client.connection_lost()

    def speaks(self, client: Speaker) -> None:
        asked = client.choose(self.chance, self.keys)
        for each in asked:
            self.tell(client, "sends " + " ".join(each.words)[: 2 * LARGE])
        client.asked += asked
        data = b"".join(call(*each.words) for each in asked)
        cut = self.chance.randrange(len(data)) if self.chance.random() < 0.3 else len(data)
        for piece in filter(None, (data[:cut], data[cut:])):
            client.send(piece)

    def late_calls_come(self) -> None:
        """Something comes for which a client has waited once; it waits for something else now."""
        for client in self.clients:
            if client.awaited is not None and not client.is_leaving():
                self.tell(client, f"is called, and waits for {client.awaited}")
                client.arrived()

    def living(self) -> list[Answered]:
        for upstream in (*self.route.all_upstreams(), *self.route.idle):
            if upstream not in self.connections:
                self.connections[upstream] = Answered(self.answering, upstream)
        return [each for each in self.connections.values() if not each.upstream.closed]

    def nodes_answer(self) -> None:
        living = self.living()
        for connection in self.chance.sample(living, self.chance.randint(1, len(living)) if living else 0):
            for _ in range(self.chance.choice([1, 2, 5])):
                argv = connection.step()
                if argv is not None:
                    self.lines.append(
                        f"n{connection.upstream.key.node.number + 1} answers {b' '.join(argv)[: 2 * LARGE].decode()}"
                    )
            if self.chance.random() < 0.3:
                connection.unblock(by_force=self.chance.random() < 0.15)
            size = len(connection.replies)
            connection.arrive(self.chance.choice([size, size, self.chance.randint(1, max(1, size))]))

    def time_passes(self, seconds: float) -> None:
        self.route.moment += seconds
        due = [*self.route.timers, *self.route.lingering]
        self.route.timers.clear()
        self.route.lingering.clear()
        for act in due:
            act()
        looking, self.nodes.looking = self.nodes.looking, []
        for waiter in looking:
            waiter.arrived()

    def something_changes(self) -> None:
        kinds: list[tuple[float, Callable[[], None]]] = [
            (0.3, self.slot_moves),
            (0.25, self.keyrail_learns),
            (0.15, self.slot_opens),
            (0.05, self.connection_is_lost),
            (0.08, self.pools_starve),
            (0.08, self.none_comes_in_time),
            (0.25, self.policy_changes),
        ]
        self.chance.choices([each for _, each in kinds], [weight for weight, _ in kinds])[0]()

    def slot_moves(self) -> None:
        slot, owner = self.chance.choice(SLOTS_OF_TAGS), self.chance.randrange(len(NODES))
        nobody = self.chance.random() < 0.1
        self.answering.give(slot, None if nobody else self.answering.nodes[owner])
        self.lines.append(f"slot {slot} is of {'nobody' if nobody else f'n{owner + 1}'}")

    def keyrail_learns(self) -> None:
        self.lines.append("Keyrail looks at the cluster")
        self.router.version += 1
        self.nodes.owners = self.answering.owners
        for slot in SLOTS_OF_TAGS:
            self.router.own(slot, slot, self.nodes.owners[slot])
        for follower in list(self.nodes.followers):
            follower.changed(came=False)

    def slot_opens(self) -> None:
        """A slot begins to move key by key, or has moved."""
        slot, node = self.chance.choice(SLOTS_OF_TAGS), self.chance.choice(self.answering.nodes)
        self.answering.open_or_close(slot, node)
        moving = [sorted(each.migrating) for each in self.answering.nodes]
        self.lines.append(f"slots that move key by key from each node: {moving}")

    def connection_is_lost(self) -> None:
        living = [each for each in self.route.all_upstreams() if not each.closed]
        if living:
            lost = self.chance.choice(living)
            self.lines.append(f"a connection to n{lost.key.node.number + 1} is lost")
            self.route.lose(lost)

    def pools_starve(self) -> None:
        self.route.starving = not self.route.starving
        self.lines.append(f"connections are {'missing' if self.route.starving else 'there'}")
        if not self.route.starving:
            self.route.feed()

    def none_comes_in_time(self) -> None:
        """Whoever waits for a connection is told that there is none, and no client of a cluster is closed for that."""
        waiting, self.route.waiting = self.route.waiting, []
        for waiter in waiting:
            self.lines.append("no connection comes for one who waits")
            if not waiter.gone:
                waiter.close("no_upstream")
        assert all(client.cause != "no_upstream" for client in self.clients), "closed, as no connection came in time"

    def policy_changes(self) -> None:
        self.lines.append("another policy comes, which says the same")
        self.route._effective_policy = replace(self.route._effective_policy)
        for client in self.clients:
            if not client.gone:
                client.adopt()

    # What must hold

    def listen(self) -> None:
        for client in self.clients:
            for asked, frame in client.listen(all_rights=self.all_rights):
                self.tell(client, f"hears {frame[: 2 * LARGE]!r} for {asked.words[0]}")
            if not client.is_leaving():
                client.check_pooled(self.route)

    def tell(self, client: Speaker, what: str) -> None:
        self.lines.append(f"client {self.clients.index(client) + 1} {what}")

    def calm(self) -> None:
        """All that can happen without anything new happens once."""
        self.route.feed()
        for connection in self.living():
            while connection.step() is not None or connection.connection.blocked is not None:
                connection.unblock()
            connection.arrive(len(connection.replies))
        self.time_passes(1)
        self.listen()

    def settle(self) -> None:
        """Whoever has not left gets all replies, and nothing stays open that it has not opened."""
        self.lines.append("all comes to an end")
        self.chance.seed(f"{self.seed} end")
        self.answering.calm()
        self.keyrail_learns()
        rounds = 0
        while rounds < ROUNDS and any(client.waits() for client in self.clients):
            self.calm()
            rounds += 1
        for _ in range(5):
            self.calm()
        for client in self.clients:
            assert not client.waits(), f"{client.asked[client.told].words} has no reply: {client.awaited} is awaited"
            if not client.is_leaving():
                client.check_settled(all_rights=self.all_rights)

    def leave(self) -> None:
        """Both clients leave: nothing of them is left on a connection."""
        for client in self.clients:
            if not client.gone:
                self.goes_away(client)
        for _ in range(30):
            self.calm()
        for upstream in (*self.route.all_upstreams(), *self.route.idle):
            left = (upstream.owner, upstream.unit, upstream.partial)
            assert left == (None, None, None), f"left behind on a connection: {left}"
            assert upstream.head is None or upstream.closed, "a reply is pending for ever"
        assert not self.route.lent, "connections are lent to nobody"
        assert not self.nodes.followers, "the cluster is followed for nobody"


def fault(seed: int, steps: Sequence[int], *, all_rights: bool) -> tuple[str, list[str]] | None:
    """What went wrong in these steps of a history, and what happened until then; None if nothing did."""
    history = History(seed, all_rights=all_rights)
    try:
        history.play(steps)
    except Exception as error:  # noqa: BLE001 - whatever the program raises is what is looked for
        at = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {at.filename}:{at.lineno}: {error}", history.lines
    return None


def shortest(seed: int, *, all_rights: bool) -> str:
    """The seed, what goes wrong and a history of as few steps as can be; empty if all is well."""
    steps = list(range(STEPS))
    found = fault(seed, steps, all_rights=all_rights)
    if found is None:
        return ""
    fewer = True
    while fewer:
        fewer = False
        for step in reversed(steps):
            rest = [each for each in steps if each != step]
            other = fault(seed, rest, all_rights=all_rights)
            if other is not None:
                steps, found, fewer = rest, other, True
    what, lines = found
    return "\n".join([f"seed {seed}, steps {steps}: {what}", *lines])
