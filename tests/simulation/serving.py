"""Commands of connections and of the server: logins, transactions, what a server tells of itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tests.simulation.replies import NIL_ARRAY, SILENCE, SYNTAX, Raw, Refusal, Text
from tests.simulation.table import command
from tests.simulation.values import integer

if TYPE_CHECKING:
    from tests.simulation.connection import Connection

VERSIONS = {False: b"7.0.15", True: b"9.1.0"}


@command("ping", -1, "sa")
def _ping(c: Connection, argv: Sequence[bytes]) -> Any:
    if len(argv) > 2:
        raise Refusal("ERR wrong number of arguments for 'ping' command")
    if c.user is None:
        raise Refusal("NOAUTH Authentication required.")
    if c.protocol == 2 and c.subscribed():
        return [b"pong", *(argv[1:] or [b""])]
    return argv[1] if len(argv) > 1 else "PONG"


@command("echo", 2)
def _echo(c: Connection, argv: Sequence[bytes]) -> Any:
    return argv[1]


@command("select", 2)
def _select(c: Connection, argv: Sequence[bytes]) -> Any:
    number = integer(argv[1])
    if c.server.node is not None and number and not c.server.valkey:
        raise Refusal("ERR SELECT is not allowed in cluster mode")
    if not 0 <= number < len(c.server.databases):
        raise Refusal("ERR DB index is out of range")
    c.database = number
    return "OK"


@command("auth", -2, "a")
def _auth(c: Connection, argv: Sequence[bytes]) -> Any:
    if len(argv) > 3:
        raise Refusal(SYNTAX)
    if len(argv) == 2 and c.server.first_user is not None:
        text = (
            "called without any password configured for the default user. Are you sure your configuration is correct?"
        )
        raise Refusal(f"ERR AUTH <password> {text}")
    _log_in(c, argv[1] if len(argv) == 3 else b"default", argv[-1])
    return "OK"


def _log_in(c: Connection, user: bytes, password: bytes) -> None:
    if user not in c.server.users or c.server.users[user] not in (None, password.decode()):
        raise Refusal("WRONGPASS invalid username-password pair or user is disabled.")
    c.user = user.decode()


@command("hello", -1, "a")
def _hello(c: Connection, argv: Sequence[bytes]) -> Any:
    protocol = c.protocol
    if len(argv) > 1:
        protocol = integer(argv[1], "ERR Protocol version is not an integer or out of range")
        if protocol not in (2, 3):
            raise Refusal("NOPROTO unsupported protocol version")
    words = list(argv[2:])
    while words:
        option = words.pop(0).upper()
        if option == b"AUTH" and len(words) > 1:
            _log_in(c, words.pop(0), words.pop(0))
        elif option == b"SETNAME" and words:
            c.name = _checked_name(words.pop(0))
        else:
            raise Refusal(f"ERR Syntax error in HELLO option '{argv[len(argv) - len(words) - 1].decode()}'")
    if c.user is None:
        raise Refusal(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH "
            "<user> <pass> option can be used to authenticate the client and select the RESP protocol version at the "
            "same time"
        )
    c.protocol = protocol
    mode = b"sentinel" if c.server.sentinel is not None else b"standalone" if c.server.node is None else b"cluster"
    about: dict[bytes, Any] = {
        b"server": b"valkey" if c.server.valkey else b"redis",
        b"version": VERSIONS[c.server.valkey],
        b"proto": c.protocol,
        b"id": c.id,
        b"mode": mode,
    }
    if c.server.sentinel is None:
        about[b"role"] = b"master" if c.server.primary is None else b"replica"
    return about | {b"modules": []}


def _checked_name(name: bytes) -> bytes:
    if any(not 33 <= byte <= 126 for byte in name):
        raise Refusal("ERR Client names cannot contain spaces, newlines or special characters.")
    return name


@command("reset", 1, "sam")
def _reset(c: Connection, argv: Sequence[bytes]) -> Any:
    c.end_transaction()
    skipped = c.skipped
    c.reset()
    c.skipped = skipped
    c.name = b""
    c.user = c.server.first_user
    return "RESET"


@command("quit", -1, "sam")
def _quit(c: Connection, argv: Sequence[bytes]) -> Any:
    c.server.loop.call_soon(c.transport.close)
    return "OK"


@command("client", -2)
def _client(c: Connection, argv: Sequence[bytes]) -> Any:
    name, rest = argv[1].upper(), argv[2:]
    match name, len(rest):
        case b"ID", 0:
            return c.id
        case b"GETNAME", 0:
            return c.name or None
        case b"SETNAME", 1:
            c.name = _checked_name(rest[0])
            return "OK"
        case b"SETINFO", 2 if c.server.valkey:
            return "OK"
        case b"NO-EVICT" | b"NO-TOUCH", 1:
            return "OK"
        case b"REPLY", 1:
            return _reply_mode(c, rest[0].upper())
        case b"TRACKING", _ if rest:
            c.tracking = rest[0].upper() == b"ON"
            c.no_loop = b"NOLOOP" in map(bytes.upper, rest)
            return "OK"
        case b"PAUSE", 1 | 2:
            c.server.pause_writes(integer(rest[0]) / 1000)
            return "OK"
        case b"UNPAUSE", 0:
            c.server.end_pause()
            return "OK"
        case b"KILL", 2 if rest[0].upper() == b"ID":
            found = [each for each in c.server.connections if each.id == integer(rest[1])]
            for each in found:
                each.transport.abort()
            return len(found)
        case b"UNBLOCK", 1:
            waiting = [each for each in c.server.connections if each.id == integer(rest[0]) and each.blocked]
            for each in waiting:
                each.unblock(NIL_ARRAY)
            return len(waiting)
    raise Refusal(SYNTAX)


def _reply_mode(c: Connection, mode: bytes) -> Any:
    if mode not in (b"ON", b"OFF", b"SKIP"):
        raise Refusal(SYNTAX)
    c.skips = c.skips or (mode == b"SKIP" and not c.off)
    c.off = mode == b"OFF" or (c.off and mode != b"ON")
    c.skipped = c.skipped and mode != b"ON"
    return "OK" if mode == b"ON" else SILENCE


# Transactions


@command("multi", 1, "m")
def _multi(c: Connection, argv: Sequence[bytes]) -> Any:
    if c.queue is not None:
        raise Refusal("ERR MULTI calls can not be nested")
    c.queue, c.spoiled = [], False
    return "OK"


@command("exec", 1, "m")
def _exec(c: Connection, argv: Sequence[bytes]) -> Any:
    if c.queue is None:
        raise Refusal("ERR EXEC without MULTI")
    queue, spoiled, broken = c.queue, c.spoiled, c.watch_is_broken()
    c.end_transaction()
    if spoiled:
        raise Refusal("EXECABORT Transaction discarded because of previous errors.")
    if broken:
        return NIL_ARRAY
    c.queue = []  # blocking commands do not wait in it
    c.reply(Raw(b"*%d\r\n" % len(queue)))
    for row, words in queue:
        try:
            c.reply(c.call(row, words))
        except Refusal as refusal:
            c.reply(refusal)
    c.queue = None
    return SILENCE


@command("discard", 1, "m")
def _discard(c: Connection, argv: Sequence[bytes]) -> Any:
    if c.queue is None:
        raise Refusal("ERR DISCARD without MULTI")
    c.end_transaction()
    return "OK"


@command("watch", -2, "m", (1, -1, 1))
def _watch(c: Connection, argv: Sequence[bytes]) -> Any:
    if c.queue is not None:
        raise Refusal("ERR WATCH inside MULTI is not allowed")
    for key in argv[1:]:
        c.watch(key)
    return "OK"


@command("unwatch", 1)
def _unwatch(c: Connection, argv: Sequence[bytes]) -> Any:
    c.unwatch()
    return "OK"


# The server


@command("wait", 3)
def _wait(c: Connection, argv: Sequence[bytes]) -> Any:
    if c.server.primary is not None:
        since = "" if c.server.valkey else "since Redis 4.0 "
        raise Refusal(
            f"ERR WAIT cannot be used with replica instances. Please also note that {since}if a replica is configured "
            "to be writable (which is not the default) writes to replicas are just local and are not propagated."
        )
    number, server = integer(argv[1]), c.server
    server.propagate()
    if server.reached(server.offset) >= number or c.queue is not None:
        return server.reached(server.offset)
    reply = c.block(argv, (), 0.0)
    seconds = integer(argv[2], "ERR timeout is not an integer or out of range") / 1000
    wait: Any = [c, number, server.offset, None]
    server.waits.append(wait)
    wait[3] = server.loop.call_later(seconds, server.end_wait, wait) if seconds else None
    return reply


@command("role", 1)
def _role(c: Connection, argv: Sequence[bytes]) -> Any:
    server = c.server
    if server.primary is not None:
        host, port = server.primary.address
        state = b"connected" if server.link_is_up else b"connect"
        return [b"slave", host.encode(), port, state, server.offset if server.link_is_up else -1]
    replicas = [(*each.replica.address, each.acknowledged) for each in server.links]
    return [b"master", server.offset, [[h.encode(), b"%d" % port, b"%d" % offset] for h, port, offset in replicas]]


@command("info", -1)
def _info(c: Connection, argv: Sequence[bytes]) -> Any:
    server = c.server
    version = VERSIONS[server.valkey].decode()
    own = f"redis_version:{version}\r\nrun_id:{server.run_id}\r\ntcp_port:{server.address[1]}\r\n"
    if server.valkey:
        own += f"server_name:valkey\r\nvalkey_version:{version}\r\n"
    sections = {
        "server": own,
        "replication": _replication(c),
        "cluster": f"cluster_enabled:{int(server.node is not None)}\r\n",
        "keyspace": "".join(f"db{n}:keys={len(db.values)}\r\n" for n, db in enumerate(server.databases) if db.values),
    }
    wanted = {word.decode().lower() for word in argv[1:]} & sections.keys() or sections
    parts = (f"# {name.capitalize()}\r\n{text}" for name, text in sections.items() if name in wanted)
    return Text("\r\n".join(parts).encode())


def _replication(c: Connection) -> str:
    server, lines = c.server, []
    if server.primary is None:
        for number, link in enumerate(server.links):
            host, port = link.replica.address
            lines.append(f"slave{number}:ip={host},port={port},state=online,offset={link.acknowledged},lag=0")
        lines = ["role:master", f"connected_slaves:{len(lines)}", *lines]
    else:
        host, port = server.primary.address
        lines = ["role:slave", f"master_host:{host}", f"master_port:{port}"]
        lines += [f"master_link_status:{'up' if server.link_is_up else 'down'}", "master_sync_in_progress:0"]
        lines += [f"slave_read_repl_offset:{server.offset}", f"slave_repl_offset:{server.offset}"]
    lines += [f"master_replid:{server.replid}", f"master_repl_offset:{server.offset}"]
    return "\r\n".join(lines) + "\r\n"


@command("time", 1)
def _time(c: Connection, argv: Sequence[bytes]) -> Any:
    seconds, rest = divmod(c.server.clock(), 1000)
    return [b"%d" % seconds, b"%d" % (rest * 1000)]


@command("command", -1)
def _command(c: Connection, argv: Sequence[bytes]) -> Any:
    """No server need describe the commands that Keyrail knows."""
    return [] if len(argv) == 1 else [None] * (len(argv) - 2)


@command("acl", -2)
def _acl(c: Connection, argv: Sequence[bytes]) -> Any:
    return (c.user or "").encode()


@command("config", -2)
def _config(c: Connection, argv: Sequence[bytes]) -> Any:
    return {} if argv[1].upper() == b"GET" else "OK"


# Clusters and Sentinels


@command("cluster", -2)
def _cluster(c: Connection, argv: Sequence[bytes]) -> Any:
    if c.server.node is None:
        raise Refusal("ERR This instance has cluster support disabled")
    return c.server.node.command([word.decode() for word in argv[1:]])


@command("asking", 1)
def _asking(c: Connection, argv: Sequence[bytes]) -> Any:
    if c.server.node is None:
        raise Refusal("ERR This instance has cluster support disabled")
    c.asking = True
    return "OK"


@command("readonly readwrite", 1)
def _readonly(c: Connection, argv: Sequence[bytes]) -> Any:
    if c.server.node is None and not c.server.valkey:
        raise Refusal("ERR This instance has cluster support disabled")
    c.readonly = argv[0].upper() == b"READONLY"
    return "OK"


@command("sentinel", -2, "s")
def _sentinel(c: Connection, argv: Sequence[bytes]) -> Any:
    if c.server.sentinel is None:
        rest = "".join(f"'{word.decode()}' " for word in argv[1:])
        raise Refusal(f"ERR unknown command '{argv[0].decode()}', with args beginning with: {rest}")
    return c.server.sentinel.answer([word.decode() for word in argv[1:]])
