"""One connection to a server: what a command meets before it runs, and what follows from it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import hiredis

from tests.simulation.data import Database, of_kind
from tests.simulation.replies import NIL_ARRAY, SILENCE, Refusal, encode
from tests.simulation.table import TABLE, Row

if TYPE_CHECKING:
    from tests.simulation.engine import Server

READ_ONLY = "READONLY You can't write against a read only replica."


class Connection(asyncio.Protocol):
    """One connection, as the server keeps it."""

    transport: Any = None

    def __init__(self, server: Server) -> None:
        self.server = server
        self.id = next(server.ids)
        self.user = server.first_user
        self.name = b""
        self.reader = hiredis.Reader()
        self.out: list[bytes] = []
        self.blocked: Blocked | None = None
        self.busy = False
        self.reset()

    def reset(self) -> None:
        """What RESET resets."""
        self.protocol, self.database = 2, 0
        self.queue: list[tuple[Row, Sequence[bytes]]] | None = None
        self.spoiled = self.readonly = self.asking = self.off = self.skips = self.skipped = False
        self.watched: dict[tuple[int, bytes], bool] = {}
        self.watch_broken = self.no_loop = False
        self.subscriptions: dict[str, dict[bytes, None]] = {"": {}, "p": {}, "s": {}}
        self.tracking = False  # what it has read stays in the table, as in Redis

    # Its transport

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.server.connections[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.forget(self)

    def data_received(self, data: bytes) -> None:
        self.reader.feed(data)
        self.work()

    def work(self) -> None:
        """Run what has come, as far as nothing holds it up."""
        self.busy = True
        while self.blocked is None and not self.server.frozen and (argv := self.reader.gets()) is not False:
            self.run(argv)
        self.busy = False
        self.flush()

    def flush(self) -> None:
        if self.out and not self.busy and self.transport is not None:
            self.transport.write(b"".join(self.out))
            self.out.clear()

    def say(self, value: Any) -> None:
        """Send something that is no reply."""
        if value is not SILENCE:
            self.out.append(encode(value, self.protocol))
        self.flush()

    # A command

    def run(self, argv: Sequence[bytes]) -> None:
        """Run one command, and send its reply."""
        self.skipped, self.skips = self.skips, False
        asking, self.asking = self.asking, False
        row = TABLE.get(argv[0].upper())
        reply: Any
        try:
            self.refuse(row, argv, asking=asking)
            assert row is not None
            if (self.queue is None or row.name == "exec") and self.server.holds_back(row, writes=self._writes(row)):
                self.asking = asking
                self.block(argv, (), 0.0, retry=True)
                return
            if self.queue is not None and "m" not in row.flags:
                if not (self.spoiled or self.watch_broken):
                    self.queue.append((row, argv))
                reply = "QUEUED"
            else:
                reply = self.call(row, argv)
        except Refusal as refusal:
            reply = refusal
        self.asking = asking if self.queue is not None else self.asking and row is not None and row.name == "asking"
        self.reply(reply)
        self.server.after_command()

    def reply(self, value: Any) -> None:
        """Send a reply, or part of it, unless the client wants none."""
        if value is not SILENCE and not (self.off or self.skipped):
            self.out.append(encode(value, self.protocol))

    def call(self, row: Row, argv: Sequence[bytes]) -> Any:
        """Run it, whatever may be against it. Raises Refusal."""
        self.server.calls[row.name] = self.server.calls.get(row.name, 0) + 1
        try:
            return row.run(self, argv)
        finally:
            if self.tracking and "r" in row.flags:
                for key in row.keys_of(argv):
                    self.server.tracked.setdefault(key, {})[self] = None

    def call_from_script(self, row: Row, argv: Sequence[bytes]) -> Any:
        """Raises Refusal."""
        if "w" in row.flags and self.server.primary is not None:
            raise Refusal(READ_ONLY)
        return self.call(row, argv)

    def refuse(self, row: Row | None, argv: Sequence[bytes], *, asking: bool) -> None:
        """Raises Refusal, as Redis does in ``processCommand``."""
        try:
            title = self._refuse(row, argv)
            assert row is not None
            redirect = self._redirect(row, argv, asking=asking)
            if not redirect:
                self._refuse_here(row, title)
        except Refusal as refusal:
            self.spoiled = True
            if row is not None and row.name == "exec":
                self.end_transaction()
                text = str(refusal).removeprefix("ERR ")
                raise Refusal(f"EXECABORT Transaction discarded because of: {text}") from None
            raise
        if redirect:
            self.spoiled = True
            if row.name == "exec":
                self.end_transaction()
            raise Refusal(redirect)

    def _refuse(self, row: Row | None, argv: Sequence[bytes]) -> str:
        if row is None:
            raise Refusal(_unknown(argv))
        title = row.title(argv)
        if self.user is None and "a" not in row.flags:
            raise Refusal("NOAUTH Authentication required.")
        if self.queue is not None and self.server.valkey and title in ("multi", "watch", "client|reply"):
            raise Refusal(f"ERR Command '{title}' not allowed inside a transaction")
        if row.name in self.server.forbidden:
            raise Refusal(f"NOPERM this user has no permissions to run the '{row.name}' command")
        return title

    def _refuse_here(self, row: Row, title: str) -> None:
        if self.server.unable and "r" in row.flags:
            self.server.unable -= 1
            raise Refusal(self.server.excuse)
        if self.server.primary is not None and self._writes(row):
            raise Refusal(READ_ONLY)
        if self.protocol == 2 and self.subscribed() and "s" not in row.flags:
            allowed = "(P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
            raise Refusal(f"ERR Can't execute '{title}': only {allowed}")

    def _writes(self, row: Row) -> bool:
        return "w" in row.flags or (row.name == "exec" and any("w" in each.flags for each, _ in self.queue or ()))

    def _redirect(self, row: Row, argv: Sequence[bytes], *, asking: bool) -> str:
        node = self.server.node
        queued = self.queue if row.name == "exec" and self.server.valkey else None
        names = {row.name, *(each.name for each, _ in queued or ())}
        aborts = row.name == "exec" and self.server.valkey and (self.spoiled or self.watch_is_broken())
        if node is None or aborts:
            return ""
        return node.refusal(
            self._keys(row, argv),
            asking=asking,
            reads=self.readonly and not self._writes(row),
            readonly=self.readonly,
            channels=not names.isdisjoint(("ssubscribe", "sunsubscribe", "spublish")),
            queues=self.queue is not None and row.name != "exec",
        )

    def _keys(self, row: Row, argv: Sequence[bytes]) -> Sequence[bytes]:
        if row.name == "exec":
            return [key for each, words in self.queue or () for key in each.keys_of(words)]
        try:
            return row.keys_of(argv)
        except ValueError:
            return ()

    def end_transaction(self) -> None:
        """As EXEC and DISCARD do."""
        self.queue, self.spoiled = None, False
        self.unwatch()

    def watch(self, key: bytes) -> None:
        """Have EXEC fail if the key changes. One that has expired already is missing, and stays so."""
        if (self.database, key) not in self.watched:
            self.watched[self.database, key] = self.read(key) is not None
            self.server.watchers.setdefault((self.database, key), {})[self] = None

    def watch_is_broken(self) -> bool:
        """Whether a watched key has changed, or has expired since."""
        for (database, key), there in self.watched.items():
            expires = self.server.databases[database].expires.get(key)
            if there and expires is not None and expires <= self.server.clock():
                return True
        return self.watch_broken

    def unwatch(self) -> None:
        for place in self.watched:
            self.server.watchers[place].pop(self, None)
        self.watched, self.watch_broken = {}, False

    def invalidates(self, by: Connection | None) -> bool:
        """Whether it is told of a key that another connection has changed."""
        return self.tracking and self.protocol == 3 and not (self is by and self.no_loop)

    def subscribed(self) -> int:
        """How many channels and patterns."""
        return sum(map(len, self.subscriptions.values()))

    # Keys

    @property
    def db(self) -> Database:
        return self.server.databases[self.database]

    def read(self, key: bytes, kind: type | None = None) -> Any:
        """What a key holds now. Raises Refusal if it is of another type."""
        db = self.db
        if key in db.expires and db.expires[key] <= self.server.clock():
            self.server.expire(self.database, key)
            return None
        value = db.values.get(key)
        return value if kind is None else of_kind(value, kind)

    def expiry(self, key: bytes) -> int | None:
        return self.db.expires.get(key)

    def write(self, key: bytes, value: Any, expires: int | None = None) -> None:
        """Set a key, or remove it."""
        self.db.put(key, value, expires)
        self.server.changed(self.database, key, self)

    def all_keys(self) -> Iterable[bytes]:
        return [key for key in list(self.db.values) if self.read(key) is not None]

    # Waiting

    def block(self, argv: Sequence[bytes], keys: Sequence[bytes], seconds: float, *, retry: bool = False) -> Any:
        """Wait for a key, or for a pause to end."""
        if (self.queue is not None and not retry) or self.server.running_script:
            return NIL_ARRAY
        self.blocked = Blocked(self, argv, tuple(keys), seconds, retry)
        return SILENCE

    def unblock(self, reply: Any) -> None:
        """End what it waits for. SILENCE has it run its command again."""
        blocked, self.blocked = self.blocked, None
        assert blocked is not None
        blocked.end()
        self.reply(reply)
        self.flush()
        if reply is SILENCE:
            self.busy = True
            self.run(blocked.argv)
        self.server.loop.call_soon(self.work)


class Blocked:
    """A connection that waits."""

    def __init__(
        self, connection: Connection, argv: Sequence[bytes], keys: Sequence[bytes], seconds: float, retry: bool
    ) -> None:
        self.connection, self.argv, self.retry = connection, argv, retry
        self.places = [(connection.database, key) for key in keys]
        server = connection.server
        for place in self.places:
            server.blocked.setdefault(place, {})[connection] = None
        if retry:
            server.held.append(connection)
        self._timer = server.loop.call_later(seconds, connection.unblock, NIL_ARRAY) if seconds else None

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for place in self.places:
            self.connection.server.blocked.get(place, {}).pop(self.connection, None)


def _unknown(argv: Sequence[bytes]) -> str:
    def shown(word: bytes) -> str:
        return word[:128].split(b"\0")[0].decode("utf-8", "surrogateescape")

    rest = "".join(f"'{shown(word)}' " for word in argv[1:])
    return f"ERR unknown command '{shown(argv[0])}', with args beginning with: {rest}"
