"""What users may run, as Redis has told: rules send what a user may run on every node.

Nodes of a cluster may differ: they are upgraded one after the other, and each has ACLs of its own. So each is probed by
itself, and what one of them lacks is not sent to any.
"""

from collections import defaultdict
from collections.abc import Callable

from proxy.commands.error_texts import command_named
from proxy.session.ports.pool_key import Node

NAMES = "CLIENT"
"""Keyrail answers CLIENT SETNAME and similar commands itself, for users who may run them."""

_DOUBTED_SECONDS = 1.0
"""Seconds between two probes of a user, if an error reply contradicts the first one."""
_LACKING_SECONDS = 5.0
"""The same if the user lacked a command that it may have been given since."""


class Rights:
    """``able`` has the probed commands that each user may run on all nodes (None: the route's own login), as policies
    are bound to it. ``beginning`` are the users whom a node is probed for, for the first time.

    Of several nodes, one that was not probed says nothing.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.able: dict[str | None, frozenset[str]] = {}
        self.beginning: set[str | None] = set()
        self._now = now
        self._on: defaultdict[str | None, dict[Node, frozenset[str]]] = defaultdict(dict)
        self._unknown: dict[Node, frozenset[str]] = {}
        self._unclear: dict[Node, frozenset[str]] = {}
        self._untold: dict[Node, frozenset[str]] = {}
        self._doubted: set[tuple[str | None, Node]] = set()
        self._asked_at: dict[tuple[str | None, Node], float] = {}

    @property
    def unknown(self) -> frozenset[str]:
        """The probed commands that some node does not have."""
        return frozenset().union(*self._unknown.values())

    @property
    def unclear(self) -> frozenset[str]:
        """The commands of which some node did not say whether the route's own login may run them. It is asked again."""
        return frozenset().union(*self._unclear.values())

    @property
    def untold(self) -> frozenset[str]:
        """The commands that some node could not be asked about, without MULTI and DISCARD."""
        return frozenset().union(*self._untold.values())

    def known(self, user: str | None) -> bool:
        """Whether it is known what this user may run, on all nodes that it has connections to."""
        return user in self.able and user not in self.beginning

    # Probing

    def probed(self, user: str | None, node: Node) -> bool:
        """Whether the user has been probed there."""
        return node in self._on.get(user, {})

    def due(self, user: str | None, node: Node, needed: frozenset[str]) -> bool:
        """Whether it is time to probe this user there. ``needed`` are the commands that rules send."""
        if not self.probed(user, node):
            return True
        age = self._now() - self._asked_at.get((user, node), float("-inf"))
        lacks = needed - self._on[user][node] - {NAMES}
        return ((user, node) in self._doubted and age >= _DOUBTED_SECONDS) or (bool(lacks) and age >= _LACKING_SECONDS)

    def begin(self, user: str | None, node: Node) -> None:
        """A probe begins: an error reply from now on is a new doubt."""
        self._asked_at[user, node] = self._now()
        self._doubted.discard((user, node))

    def tell(
        self,
        user: str | None,
        node: Node,
        able: frozenset[str],
        unclear: frozenset[str],
        unknown: frozenset[str],
        untold: frozenset[str] = frozenset(),
    ) -> None:
        """The user may run this there. What is ``unclear`` is as it was, and probed again."""
        if user is None:
            self._unknown[node], self._unclear[node], self._untold[node] = unknown, unclear, untold
        if unclear:
            able |= unclear & self._on[user].get(node, frozenset())
            self._doubted.add((user, node))
        self._on[user][node] = able

    def fail(self, user: str | None, node: Node) -> None:
        """The probe that began has told nothing. Of a node that has left meanwhile, nothing is kept."""
        if user in self.able and (user, node) in self._asked_at:
            self._doubted.add((user, node))

    def on_all(self, user: str | None) -> frozenset[str]:
        """What all nodes that were probed let this user run. Where none was: what was in force."""
        told = self._on.get(user)
        return frozenset.intersection(*told.values()) if told else self.able.get(user, frozenset())

    def unsettled(self) -> list[str | None]:
        """The users who may run more, or less, than policies are bound to."""
        return [user for user, able in self.able.items() if able != self.on_all(user)]

    # Doubting

    def doubted(self, user: str | None, node: Node) -> bool:
        """Whether the user will be probed there again."""
        return (user, node) in self._doubted

    def doubt(self, user: str | None, node: Node) -> None:
        """What is known of this user there may be wrong."""
        self._doubted.add((user, node))

    def doubt_at_once(self, user: str | None, node: Node) -> None:
        """The same, even if the last probe was just now."""
        self._asked_at.pop((user, node), None)
        self._doubted.add((user, node))

    def contradicts(self, user: str | None, line: bytes) -> bool:
        """Whether an error reply is about a command that this user should be able to run.

        A script can return such a text, so it proves nothing. It is a reason to probe again.
        """
        return command_named(line) in self.able.get(user, frozenset())

    # Forgetting

    def forget(self, user: str | None) -> None:
        """Nobody is logged in as this user any more. It is probed again at the next login."""
        self.able.pop(user, None)
        self._on.pop(user, None)
        self._doubted = {each for each in self._doubted if each[0] != user}
        self._asked_at = {each: at for each, at in self._asked_at.items() if each[0] != user}

    def leave(self, node: Node) -> None:
        """This node has gone: what it did not allow, the others may."""
        for what in (self._unknown, self._unclear, self._untold):
            what.pop(node, None)
        for told in self._on.values():
            told.pop(node, None)
        self._doubted = {each for each in self._doubted if each[1] is not node}
        self._asked_at = {each: at for each, at in self._asked_at.items() if each[1] is not node}

    def renew(self, node: Node) -> None:
        """Another engine or process is there now: nothing is known of it, nor of users whom no other node has told
        of."""
        self.leave(node)
        for user in [user for user in self.able if not self._on.get(user)]:
            self.forget(user)
