"""A model engine on one page: the effect of each connection's state on a command, with replies that name client and
connection.

ECHO answers its argument together with the connection's user, database and protocol, so a command on the wrong
connection is seen at once. There is no data: Keyrail could only confuse state.
"""

from __future__ import annotations

import hiredis

from proxy.session.ports.pool_key import PoolKey
from tests.session.given import FakeRoute, Upstream

ARITY = b"-ERR wrong number of arguments\r\n"
OK = b"+OK\r\n"
QUEUED = b"+QUEUED\r\n"
DENIED = (b"FLUSHALL", b"APPEND")
"""Refused by the policy under which the model is played."""

FOLLOWS = (b"EXPIRE",)
"""The commands that only Keyrail itself sends, when a reply has come."""

ALONE = {b"MULTI": 1, b"EXEC": 1, b"DISCARD": 1, b"UNWATCH": 1}
ALLOWED_TO_SUBSCRIBERS = (b"SUBSCRIBE", b"UNSUBSCRIBE", b"PING", b"RESET")


def bulk(text: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(text), text)


def switches_database(argv: list[bytes]) -> bool:
    """Whether the command may change the database: without a reply nobody could tell whether it has."""
    return argv[0] == b"SELECT" and argv[1] == b"%d" % int(argv[1])


class Connection:
    """One connection as Redis keeps it. ``direct`` plays Redis with the policy in it: what the client must see."""

    def __init__(self, key: PoolKey, *, direct: bool = False) -> None:
        self.direct = direct
        self.user = key.user
        self.home_user = key.user
        self.database = key.database
        self.protocol = key.protocol
        self.queue: list[list[bytes]] | None = None
        self.dirty = False
        self.watching = False
        self.written: set[bytes] = set()
        self.channels: list[bytes] = []
        self.name = b""
        self.off = False
        self.skip = False
        self.skipped = False
        self.loud = False

    def clean(self) -> bool:
        """Whether another client may have it."""
        return self.queue is None and not (self.watching or self.channels or self.off or self.skip)

    def matches(self, key: PoolKey) -> bool:
        return PoolKey(self.user, self.database, self.protocol) == key

    def command(self, argv: list[bytes]) -> bytes:
        """The reply to one command, nothing if CLIENT REPLY says so."""
        argv = [argv[0].upper(), *argv[1:]]
        self.skipped, self.skip, self.loud = self.skip, False, False
        silent = self.skipped
        reply = self._receive(argv)
        return reply if self.loud or not (silent or self.off) else b""

    def _receive(self, argv: list[bytes]) -> bytes:
        word = argv[0]
        if self.direct and (word in DENIED or (self.queue is not None and self.off and switches_database(argv))):
            self.dirty = True
            return b"-DENIED\r\n"
        if self.channels and self.protocol == 2 and word not in ALLOWED_TO_SUBSCRIBERS:
            return b"-ERR Can't execute that here\r\n"
        if word in ALONE and len(argv) != ALONE[word]:
            self.dirty = True
            if word == b"EXEC" and self.queue is not None:
                return self._exec()
            return ARITY
        if word == b"GET" and len(argv) == 1:
            self.dirty = True
            return ARITY
        if word == b"NOSUCH":
            self.dirty = True
            return b"-ERR unknown command\r\n"
        if word in FOLLOWS:
            assert not self.direct, "nobody asks for it"
            assert self.queue is None or self.queue[0][0] == b"SELECT", "what follows is in no unit but its own"
            assert not self.watching or argv[1] in self.written, "what follows would break the transaction to come"
            return self._queued(argv) if self.queue is not None else b":1\r\n"
        if self.queue is not None and word not in (b"EXEC", b"DISCARD", b"MULTI", b"WATCH", b"RESET"):
            return self._queued(argv)
        return self._run(argv)

    def _queued(self, argv: list[bytes]) -> bytes:
        assert self.queue is not None
        self.queue.append(argv)
        return QUEUED

    def _exec(self) -> bytes:
        queue, self.queue = self.queue, None
        self.watching = False
        if queue is None:
            return b"-ERR EXEC without MULTI\r\n"
        if self.dirty:
            return b"-EXECABORT\r\n"
        return b"*%d\r\n" % len(queue) + b"".join(self._run(argv) for argv in queue)

    def _run(self, argv: list[bytes]) -> bytes:
        word = argv[0]
        self.written.update(argv[1:])
        if word == b"MULTI":
            if self.queue is not None:
                return b"-ERR nested\r\n"
            self.queue, self.dirty = [], False
            return OK
        if word == b"EXEC":
            return self._exec()
        if word == b"DISCARD":
            if self.queue is None:
                return b"-ERR DISCARD without MULTI\r\n"
            self.queue, self.watching = None, False
            return OK
        if word == b"WATCH":
            if self.queue is not None:
                return b"-ERR WATCH inside MULTI\r\n"
            if not self.watching:
                self.written.clear()
            self.watching = True
            return OK
        if word == b"UNWATCH":
            self.watching = False
            return OK
        if word == b"SELECT":
            if argv[1] not in (b"0", b"1", b"2"):
                return b"-ERR invalid DB index\r\n"
            self.database = int(argv[1])
            return OK
        if word == b"AUTH":
            if argv[2] != b"right":
                return b"-WRONGPASS\r\n"
            self.user = argv[1].decode()
            return OK
        if word == b"HELLO":
            self.protocol = int(argv[1])
            return b"+HELLO\r\n"
        if word == b"RESET":
            # RESET ends CLIENT REPLY OFF before it answers, but not the SKIP that it is under.
            loud = not self.skipped
            self.__init__(PoolKey(self.home_user, 0, 2), direct=self.direct)  # type: ignore[misc]  # it begins anew
            self.loud = loud
            return b"+RESET\r\n"
        if word in (b"SUBSCRIBE", b"UNSUBSCRIBE"):
            return self._subscribe(word, argv[1:])
        if word == b"CLIENT":
            return self._client(argv[1].upper(), argv[2:])
        return self._say(word, argv)

    def _say(self, word: bytes, argv: list[bytes]) -> bytes:
        if word in (b"ECHO", b"EVAL", b"BLPOP", b"MY.OWN", b"INCR", b"HGETALL"):
            return bulk(b"%b %d %d %b" % ((self.user or "-").encode(), self.database, self.protocol, argv[1]))
        if word == b"PING":
            return b"*2\r\n$4\r\npong\r\n$0\r\n\r\n" if self.channels and self.protocol == 2 else b"+PONG\r\n"
        if word in (b"EXISTS", b"TYPE"):
            assert not self.direct, "nobody asks for it"
            return b":0\r\n" if word == b"EXISTS" else b"+hash\r\n"
        if word in (b"SETNX", b"LPUSH", b"MSETEX", *FOLLOWS):
            return b":1\r\n"
        if word == b"LRANGE":
            return b"*0\r\n"
        assert word in (b"SET", b"MSET", b"RENAME", b"PUBLISH"), word
        return OK

    def _subscribe(self, word: bytes, names: list[bytes]) -> bytes:
        self.loud = True
        out = b""
        if word == b"UNSUBSCRIBE" and not names:
            names = list(self.channels)
        for name in names:
            if word == b"SUBSCRIBE" and name not in self.channels:
                self.channels.append(name)
            elif word == b"UNSUBSCRIBE" and name in self.channels:
                self.channels.remove(name)
            out += self._confirmation(word, bulk(name))
        return out or self._confirmation(word, b"$-1\r\n" if self.protocol == 2 else b"_\r\n")

    def _confirmation(self, word: bytes, name: bytes) -> bytes:
        kind = b"*" if self.protocol == 2 else b">"
        return b"%b3\r\n%b%b:%d\r\n" % (kind, bulk(word.lower()), name, len(self.channels))

    def _client(self, word: bytes, rest: list[bytes]) -> bytes:
        if word == b"SETNAME":
            self.name = rest[0]
            return OK
        if word == b"GETNAME":
            return bulk(self.name) if self.name else b"$-1\r\n" if self.protocol == 2 else b"_\r\n"
        if word == b"REPLY":
            mode = rest[0].upper()
            if mode not in (b"ON", b"OFF", b"SKIP"):
                return b"-ERR syntax error\r\n"
            self.skip = mode == b"SKIP" and not self.off
            self.off = mode == b"OFF" or (self.off and mode != b"ON")
            self.loud = mode == b"ON"
            return OK if mode == b"ON" else b""
        assert word == b"ID", word
        return b":1\r\n"


class ModelUpstream(Upstream):
    """A connection to the model engine; it answers when the test lets it."""

    def __init__(self, key: PoolKey) -> None:
        super().__init__(key)
        self.connection = Connection(key)
        self.reader = hiredis.Reader()
        self.unsent = b""

    def unit_known(self) -> bool:
        """Whether the queue knows of the transaction or WATCH that is open here, as far as that has been sent."""
        is_open = self.connection.queue is not None or self.connection.watching
        return not is_open or self.closed or bool(self.outgoing or self.sent) or self.unit is not None

    def work(self, size: int | None = None) -> bool:
        """Run what has arrived and send up to ``size`` bytes of the replies; whether anything happened."""
        self.reader.feed(self.taken())
        while (argv := self.reader.gets()) is not False:
            self.unsent += self.connection.command(argv)
        if not self.unsent or self.closed:
            return False
        now, self.unsent = self.unsent[:size], self.unsent[size:] if size else b""
        self.receive(now)
        return True


class ModelRoute(FakeRoute):
    """A route to the model engine, that looks at every connection it is given back."""

    def connect(self, key: PoolKey) -> Upstream:
        return ModelUpstream(key)

    def release(self, upstream: object) -> None:
        assert isinstance(upstream, ModelUpstream)
        upstream.reader.feed(upstream.taken())
        while (argv := upstream.reader.gets()) is not False:
            upstream.unsent += upstream.connection.command(argv)
        assert upstream.unsent == b"", "released with replies under way"
        assert upstream.connection.clean(), vars(upstream.connection)
        assert upstream.connection.matches(upstream.key), (vars(upstream.connection), upstream.key)
        super().release(upstream)
