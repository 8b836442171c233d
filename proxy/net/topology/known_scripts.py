"""The texts of scripts that clients have run or loaded: for nodes of a cluster that come later, and for replicas.

A node that is promoted, or joins, knows no script, and clients that call one by its SHA1 would get NOSCRIPT in the
middle of a failover. So Keyrail loads them on the first connection to the node, before that carries commands. Only
scripts count that a node has accepted from some client; SCRIPT FLUSH forgets all. At most ``MOST_BYTES`` are kept, and
the least recently used ones are forgotten.

All workers tell each other, each second, since the client of one worker may call what another one has loaded, and each
loads its scripts before its own commands. The supervisor remembers them for workers that come later.
"""

import asyncio
import logging
from collections import OrderedDict
from hashlib import sha1
from typing import NamedTuple

from proxy.commands.error_texts import SCRIPT_REFUSED
from proxy.net.connection.asked_once import AskedOnce
from proxy.net.connection.upstream import UpstreamConnection
from proxy.session.ports.node_port import KnownScriptsPort
from proxy.session.ports.pool_key import Node

MOST_BYTES = 4 << 20
_MOST_NEWS = 1 << 20
"""Bytes of texts that other workers are told of at a time. So many new ones are none that are called again."""
_MOST_ROUNDS = 3
"""Who sends scripts without end keeps no node waiting."""
_BYTES_EACH = 200
"""What a text costs beside its bytes."""

_log = logging.getLogger("keyrail.route")


class ScriptNews(NamedTuple):
    """What a worker has seen of scripts since it told of them last: whether all were ``flushed``, and since then these
    ``texts``."""

    flushed: bool = False
    texts: tuple[bytes, ...] = ()


class KnownScripts(KnownScriptsPort):
    """The scripts of one route, as the clients of all workers have used them."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._left = most
        self._flushed = False
        self._news: dict[bytes, None] = {}
        self._news_left = _MOST_NEWS
        self._texts: OrderedDict[bytes, bytes] = OrderedDict()
        self._by_sha: dict[bytes, bytes] = {}
        self._loaded: dict[Node, bytes | None] = {}
        self._asked = AskedOnce()

    def knows(self, text: bytes) -> bool:
        """Whether it has been remembered; it counts as used."""
        if text not in self._texts:
            return False
        self._texts.move_to_end(text)
        return True

    def text_of(self, sha: bytes) -> bytes | None:
        """The script of this SHA1, in whichever case; None if none has been remembered."""
        text = self._by_sha.get(sha.lower())
        return text if text is not None and self.knows(text) else None

    def remember(self, text: bytes) -> None:
        """A node has accepted this script from a client of this worker."""
        if text in self._texts:
            return
        self._add(text)
        if len(text) <= self._news_left:
            self._news[text] = None
            self._news_left -= len(text)

    def _add(self, text: bytes) -> None:
        self._texts[text] = sha = sha1(text, usedforsecurity=False).hexdigest().encode()
        self._by_sha[sha] = text
        self._left -= len(text) + _BYTES_EACH
        while self._left < 0:
            oldest, sha = self._texts.popitem(last=False)
            del self._by_sha[sha]
            self._left += len(oldest) + _BYTES_EACH

    def forget(self) -> None:
        """The nodes have forgotten all scripts."""
        self._clear()
        self._news.clear()
        self._news_left = _MOST_NEWS
        self._flushed = True

    def _clear(self) -> None:
        self._left += sum(len(text) + _BYTES_EACH for text in self._texts)
        self._texts.clear()
        self._by_sha.clear()

    def take_news(self) -> ScriptNews:
        """What is new since the last call, for other workers."""
        news = ScriptNews(self._flushed, tuple(self._news))
        self._flushed, self._news_left = False, _MOST_NEWS
        self._news.clear()
        return news

    def learn(self, news: ScriptNews) -> None:
        """What another worker has seen."""
        if news.flushed:
            self._clear()
        for text in news.texts:
            if text not in self._texts:
                self._add(text)

    def all(self) -> ScriptNews:
        """All of them, for a worker that begins."""
        return ScriptNews(texts=tuple(self._texts))

    def leave(self, node: Node) -> None:
        """This node has gone: if it comes back, it may know none of them."""
        self._loaded.pop(node, None)

    async def load_on(self, upstream: UpstreamConnection) -> None:
        """Load the scripts on the node of a new connection, unless that was done in the same process. What the node
        refuses for a moment is loaded on the next connection.

        Raises ConnectionResetError.
        """
        node = upstream.key.node
        if node not in self._loaded or self._loaded[node] != upstream.run_id:
            await self._asked.ask((node, upstream.run_id), lambda: self._load_on(upstream))

    async def _load_on(self, upstream: UpstreamConnection) -> None:
        node = upstream.key.node
        asked: set[bytes] = set()
        replies: list[bytes] = []
        for _ in range(_MOST_ROUNDS):
            # Meanwhile nodes that are there have accepted others, from clients who did not know of this one.
            texts = [text for text in self._texts if text not in asked]
            asked.update(texts)
            replies += await asyncio.gather(*[upstream.ask(["SCRIPT", "LOAD", text]) for text in texts])
        refused = [reply for reply in replies if reply.startswith(b"-")]
        # A node that is loading, or runs a script, accepts scripts later.
        if all(SCRIPT_REFUSED.begin(reply) for reply in refused):
            self._loaded[node] = upstream.run_id
        if refused:
            reason = refused[0][1:].decode("utf-8", "replace").strip()
            _log.warning("%d of %d scripts could not be loaded on a new node: %s", len(refused), len(replies), reason)
