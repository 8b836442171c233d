"""The questions of a rule with a cluster upstream: each goes to the node of its key, and a walk by SCAN over all
primaries.

A rule knows one Redis. A question about a key that has gone to another node (MOVED, ASK) is asked there. Behind the
last keys of a node, SCAN gets a cursor that leads on to the next one.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from proxy.cluster.hidden_nodes import hidden_redirect
from proxy.commands.command import Command
from proxy.commands.error_texts import ASKS, QUESTION_REDIRECTED
from proxy.commands.slots import slot_of
from proxy.commands.table import Table
from proxy.hotpath.cluster.router import Router
from proxy.session.ports.client_identity import Origin
from proxy.session.ports.node_port import NodePort
from proxy.session.ports.pool_key import ANY_NODE, Node, PoolKey
from proxy.session.ports.ports import QueryPort, Questions

Answered: TypeAlias = Callable[[Sequence[bytes] | None], None]

_ASKING = (b"ASKING",)
_MOST_HOPS = 3
_BEGIN = b"0"
_NEXT_NODE = b"next"
_LAST_PAGE = b"*2\r\n$1\r\n0\r\n"
_LEADS_ON = b"*2\r\n$4\r\nnext\r\n"
KEYS_LOST = b"-CLUSTERDOWN keyrail: a primary with slots cannot be asked now: try again\r\n"
_CHANGED = b"-CLUSTERDOWN keyrail: slots have moved meanwhile: try again\r\n"


def stood_for(nodes: NodePort, origin: Origin) -> Sequence[Node]:
    """The primaries for which a client's address stands: clients of a cluster ask all addresses."""
    primaries, presented = nodes.primaries(), nodes.presented(origin.listener)
    if presented is None:
        return primaries
    mine = presented.own_share().nodes
    return [node for node in primaries if node.number in mine]


def misses_keys(nodes: NodePort, origin: Origin) -> bool:
    """Whether some of the keys for which a client's address stands are on no node that commands go to."""
    lost = nodes.lost_slots()
    presented = nodes.presented(origin.listener) if lost else None
    if presented is None:
        return bool(lost)
    own = presented.own_share().ranges
    return any(first <= last_lost and first_lost <= last for first, last in own for first_lost, last_lost in lost)


class _Place(NamedTuple):
    """Where questions go: ``asks`` if ASKING goes in front of each. They have been sent on ``hops`` times."""

    node: Node
    asks: bool = False
    hops: int = 0


class NodeQuestions:
    """Those of one procedure, asked as the login of ``key``. SCAN goes over the ``walked`` nodes, and fails while
    these do not have all keys (``incomplete``). CLUSTER NODES, as often as there are walked ones, goes to each of them.
    Other questions that have no keys are for the node of ``key``, or for any of the walked ones."""

    def __init__(
        self,
        queries: QueryPort,
        nodes: NodePort,
        router: Router,
        table: Table,
        key: PoolKey,
        walked: Sequence[Node],
        incomplete: Callable[[], bool],
    ) -> None:
        self._queries = queries
        self._nodes = nodes
        self._router = router
        self._version = router.version
        self._table = table
        self._key = key
        self._walked = walked
        self._incomplete = incomplete
        self._at = 0

    def ask(self, questions: Questions, answered: Answered) -> None:
        """Ask the nodes. ``answered`` gets the reply frames, or None where there are none to be had."""
        by_node: dict[_Place, list[int]] = {}
        sent = []
        each_walked = iter(self._walked)
        for index, question in enumerate(questions):
            about_node = question[0] == b"CLUSTER"
            node, argv = (next(each_walked, None), question) if about_node else self._place(question)
            if node is None:
                answered(None)
                return
            by_node.setdefault(_Place(node), []).append(index)
            sent.append(argv)

        def send(place: _Place, indexes: Sequence[int]) -> None:
            theirs = [part for index in indexes for part in ([_ASKING] if place.asks else []) + [sent[index]]]
            self._queries.ask(self._key._replace(node=place.node), theirs, partial(gathering.came, place, indexes))

        def done(frames: Sequence[bytes] | None) -> None:
            answered(frames and self._read(sent, frames))

        gathering = _Gathering(len(sent), len(by_node), self._nodes, send, done)
        for place, indexes in by_node.items():
            send(place, indexes)

    def _place(self, question: Sequence[bytes]) -> tuple[Node | None, Sequence[bytes]]:
        if question[0] == b"SCAN":
            if question[1] == _NEXT_NODE:
                self._at += 1
                question = [question[0], _BEGIN, *question[2:]]
            return self._walked[self._at] if self._walked else None, question
        keys = Command(self._table, question).known_keys
        return self._nodes.owner(slot_of(keys[0].name)) if keys else self._for_any(), question

    def _for_any(self) -> Node | None:
        if self._key.node is not ANY_NODE:
            return self._key.node
        return self._nodes.any(self._walked or self._nodes.primaries())

    def _read(self, sent: Questions, frames: Sequence[bytes]) -> Sequence[bytes]:
        return [self._frame(question, frame) for question, frame in zip(sent, frames, strict=True)]

    def _frame(self, question: Sequence[bytes], frame: bytes) -> bytes:
        if question[0] != b"SCAN":
            return hidden_redirect(frame)
        if self._router.version != self._version:
            # A slot may have gone to a node that has been walked already.
            return _CHANGED
        if self._incomplete():
            return KEYS_LOST
        leads_on = frame.startswith(_LAST_PAGE) and self._at + 1 < len(self._walked)
        return _LEADS_ON + frame[len(_LAST_PAGE) :] if leads_on else frame


class _Gathering:
    """The frames of several nodes, in the order of the questions; None once one of them has none.

    Questions that a node refuses, as their key is on another one, are sent there.
    """

    def __init__(
        self,
        frames: int,
        places: int,
        nodes: NodePort,
        send: Callable[[_Place, Sequence[int]], None],
        done: Answered,
    ) -> None:
        self._frames: list[bytes] = [b""] * frames
        self._under_way = places
        self._nodes = nodes
        self._send = send
        self._done = done

    def came(self, place: _Place, indexes: Sequence[int], frames: Sequence[bytes] | None) -> None:
        """One node has answered."""
        if self._under_way <= 0:
            return
        if frames is None:
            self._under_way = 0
            self._done(None)
            return
        again: dict[_Place, list[int]] = {}
        for index, frame in zip(indexes, frames[1::2] if place.asks else frames, strict=True):
            self._frames[index] = frame
            there = self._redirected(place, frame)
            if there is not None:
                again.setdefault(there, []).append(index)
        self._under_way += len(again) - 1
        for there, theirs in again.items():
            self._send(there, theirs)
        if self._under_way == 0 and not again:
            self._done(self._frames)

    def _redirected(self, place: _Place, frame: bytes) -> _Place | None:
        if place.hops >= _MOST_HOPS or not QUESTION_REDIRECTED.begin(frame):
            return None
        node = self._nodes.redirected(frame, place.node)
        return None if node is None else _Place(node, ASKS.hinted(frame), place.hops + 1)
