"""Odd, wrong and hostile bytes get the engine's own answers, error text and close included.

Proves: blank lines, `*0` and `*-1` get no reply; inline commands are read as Redis reads them, with quotes and escapes;
limits hold before anything is allocated, including the small ones before AUTH; a protocol error gets that engine's own
text, behind the replies to earlier commands, and a close; a half-closed client gets all its pending replies; the
replication protocol is refused.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import Fleet
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Address, Closed, Wire, pack

PING = pack("PING")

HARMLESS = {
    "blank lines": b"\r\n\n\r\n\r\n" + PING + b"\r\n" + PING,
    "no arguments": b"*0\r\n" + PING + b"*-1\r\n*-5\r\n" + PING,
    "inline": b"PING\r\nping\nPiNg hello\r\nSET k v\r\nGET k\r\n",
    "inline with spaces": b"   SET    k    v   \r\n\tGET\tk\r\n",
    "inline with quotes": b'SET k "a b\\x41\\n\\"q\\""\r\nGET k\r\nSET \'k 2\' \'it\\\'s\'\r\nGET "k 2"\r\nECHO ""\r\n',
    "inline with a NUL": b"SET k a\0b\r\nGET k\r\n",
    "a status line is an inline command": b"+GET a\r\n:5\r\n",
    "between inline and not": b"PING\r\n" + PING + b"PING\r\n\r\n" + PING,
    "an empty name": b"*1\r\n$0\r\n\r\n" + PING,
    "an empty argument": pack("ECHO", "") + pack("SET", "", ""),
    "binary": pack("SET", b"\x00\r\n$3\r\n*", b"\xff\r\n+OK\r\n") + pack("GET", b"\x00\r\n$3\r\n*"),
    "half a command": PING + b"*2\r\n$3\r\nGET\r\n$5\r\nab",
    "half an inline command": PING + b"PI",
    "half a header": PING + b"*2",
    "long inline": b"ECHO " + b"x" * 60_000 + b"\r\n" + PING,
    "many arguments": pack("DEL", *(f"k{i}" for i in range(5000))) + PING,
    "twenty thousand": PING * 20_000,
    "no arguments behind SKIP": pack("CLIENT", "REPLY", "SKIP") + b"*-1\r\n" + pack("ECHO", "a") + pack("ECHO", "b"),
    "a blank line behind SKIP": pack("CLIENT", "REPLY", "SKIP") + b"\r\n" + pack("ECHO", "a") + pack("ECHO", "b"),
    "several behind SKIP": pack("CLIENT", "REPLY", "SKIP") + b"*0\r\n*-5\r\n\n" + pack("ECHO", "a") + PING,
    "no arguments between two SKIPs": (pack("CLIENT", "REPLY", "SKIP") + b"*0\r\n" + PING) * 2 + pack("ECHO", "a"),
    "no arguments under OFF": pack("CLIENT", "REPLY", "OFF") + b"*0\r\n" + PING + pack("CLIENT", "REPLY", "ON") + PING,
    "no arguments inside MULTI": pack("MULTI") + b"*0\r\n\r\n" + PING + b"*-1\r\n" + pack("EXEC"),
    "quit in the middle": PING + pack("QUIT") + PING * 5 + pack("SET", "after", "quit"),
    "quit inline": b"PING\r\nquit\r\nPING\r\n",
}

WRONG = {
    "not a bulk": b"*1\r\n:5\r\n",
    "not a bulk but an array": b"*1\r\n*1\r\n$4\r\nPING\r\n",
    "an inline command as an argument": b"*2\r\nGET k\r\n",
    "no number of arguments": b"*x\r\n",
    "an empty number of arguments": b"*\r\n",
    "a number with a space": b"* 1\r\n$4\r\nPING\r\n",
    "a number with a sign": b"*+1\r\n$4\r\nPING\r\n",
    "a number with a zero before it": b"*01\r\n$4\r\nPING\r\n",
    "a number with a tail": b"*1x\r\n$4\r\nPING\r\n",
    "a count out of range": b"*2147483648\r\n",
    "a count far out of range": b"*99999999999999999999\r\n",
    "a null argument": b"*2\r\n$3\r\nGET\r\n$-1\r\n",
    "no length": b"*1\r\n$x\r\n",
    "an empty length": b"*1\r\n$\r\n",
    "a length with a zero before it": b"*1\r\n$04\r\nPING\r\n",
    "a length out of range": b"*2\r\n$3\r\nGET\r\n$536870913\r\n",
    "a length far out of range": b"*2\r\n$3\r\nGET\r\n$99999999999999999999\r\n",
    "unbalanced quotes": b'SET k "open\r\n',
    "text behind a quote": b'SET k "a"b\r\n',
    "unbalanced single quotes": b"SET k 'open\r\n",
    "endless inline": b"x" * 70_000,
    "endless count": b"*" + b"1" * 70_000,
    "endless length": b"*1\r\n$" + b"1" * 70_000,
    "a web page's request": b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSET k v\r\n",
    "a header of the web": b"host: localhost\r\nSET k v\r\n",
}


def exchange(address: Address, data: bytes, *, piece: int = 0, wait: bool = False) -> bytes:
    """Everything that comes back for `data` until the other side closes; half-closes once it is sent, unless `wait`."""
    with Wire(address) as wire:
        try:
            for start in range(0, len(data), piece or len(data)):
                wire.send(data[start : start + (piece or len(data))])
            if not wait:
                wire.half_close()
        except OSError:
            pass  # it was closed while we still wrote: what came before that counts
        received = b""
        try:
            while chunk := wire.socket.recv(1 << 18):
                received += chunk
        except ConnectionError:
            return received
        except TimeoutError:
            return received + b"<still open>"
        return received


def same(fleet: Fleet, engine_name: str, pooling: bool, data: bytes, piece: int = 0) -> None:
    direct = fleet.engine(engine_name, "reference")
    keyrail = fleet.keyrail(engine_name, pooling=pooling)
    for engine in (direct, fleet.engine(engine_name)):
        engine.do("FLUSHALL")
    expected = exchange(direct.address, data, piece=piece)
    got = exchange(keyrail.address, data, piece=piece)
    if got != expected:
        sent = f"{data[:200]!r} by {piece or 'all'}"
        pytest.fail(f"sent {sent}\n   direct: {ends(expected)}\n  keyrail: {ends(got)}", pytrace=False)
    assert fleet.engine(engine_name).do("EXISTS", "after") == 0


def ends(data: bytes) -> str:
    """The first and last bytes of an answer."""
    return repr(data) if len(data) < 400 else f"{data[:200]!r} … {data[-150:]!r} ({len(data)} bytes)"


@pytest.mark.parametrize("name", HARMLESS)
def test_odd_but_right(fleet: Fleet, engine_name: str, pooling: bool, name: str) -> None:
    same(fleet, engine_name, pooling, HARMLESS[name])
    if len(HARMLESS[name]) < 2000:
        same(fleet, engine_name, pooling, HARMLESS[name], piece=1)


@pytest.mark.parametrize("name", WRONG)
def test_wrong(fleet: Fleet, engine_name: str, pooling: bool, name: str) -> None:
    """Behind a good command and its reply, whole and byte by byte. A request of the web stands alone: Redis drops
    the replies before it together with the connection, and there is no reason to do as much."""
    before = b"" if "web" in name else pack("SET", "k", "v")
    same(fleet, engine_name, pooling, before + WRONG[name])
    if len(WRONG[name]) < 2000:
        same(fleet, engine_name, pooling, WRONG[name], piece=1)


@pytest.mark.parametrize("mode", ["OFF", "SKIP"])
def test_a_protocol_error_after_client_reply_off(fleet: Fleet, engine_name: str, pooling: bool, mode: str) -> None:
    """No error and, where no reply is on its way, no close: the engine reads no further, until the client leaves."""
    behind = pack("CLIENT", "REPLY", "ON") + pack("SET", "after", "v")
    for data in (b"*x\r\n", b'SET k "open\r\n', b"*1\r\n$-1\r\n", b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n:5\r\n"):
        same(fleet, engine_name, pooling, PING + pack("CLIENT", "REPLY", mode) + data + behind)
    direct, keyrail = fleet.engine(engine_name, "reference"), fleet.keyrail(engine_name, pooling=pooling)
    with direct.wire() as theirs, keyrail.wire() as ours:
        for wire in (theirs, ours):
            assert wire.ask("PING") == b"+PONG\r\n"
            wire.send(pack("CLIENT", "REPLY", mode) + b"*x\r\n" + behind)
        assert theirs.silent(0.1)
        assert ours.silent(0.1)
    with keyrail.wire() as other:
        assert other.ask("EXISTS", "after") == b":0\r\n"


def test_a_protocol_error_closes_without_waiting(fleet: Fleet, engine_name: str, pooling: bool) -> None:
    """The client need not half-close: Redis closes by itself."""
    direct, keyrail = fleet.engine(engine_name, "reference"), fleet.keyrail(engine_name, pooling=pooling)
    for data in (b"*x\r\n", b'SET k "open\r\n', b"*1\r\n$536870913\r\n"):
        expected = exchange(direct.address, data, wait=True)
        assert exchange(keyrail.address, data, wait=True) == expected
        assert b"<still open>" not in expected


def test_argument_count_limit(fleet: Fleet, engine_name: str) -> None:
    """6.2 stops at 1,048,576 arguments; later ones at two thousand million."""
    direct, keyrail = fleet.engine(engine_name, "reference"), fleet.keyrail(engine_name)
    for count in (1_048_576, 1_048_577, 2_147_483_647):
        data = b"*%d\r\n" % count
        before = 0 if DIRECT else keyrail.memory()
        assert exchange(keyrail.address, data) == exchange(direct.address, data)
        if not DIRECT:
            assert keyrail.memory() - before < 16 << 20, "something was allocated for arguments that never came"


@pytest.fixture(scope="module")
def guarded(fleet: Fleet) -> Callable[[str], tuple[Engine, Keyrail]]:
    """An engine with a password, and Keyrail in front of it, which does not know the password."""
    found: dict[str, tuple[Engine, Keyrail]] = {}

    def of(engine_name: str) -> tuple[Engine, Keyrail]:
        if engine_name not in found:
            engine = fleet.engine(engine_name, "guarded", {"requirepass": "sesame"})
            found[engine_name] = engine, fleet.keyrail(engine_name, role="guarded")
        return found[engine_name]

    return of


BEFORE_AUTH = {
    "commands": b"".join(pack(*line.split()) for line in ("GET k", "PING", "ECHO x", "NOSUCH", "CLIENT SETNAME x")),
    "more of them": b"".join(pack(*line.split()) for line in ("MULTI", "EXEC", "SUBSCRIBE x", "SELECT 1", "COMMAND")),
    "hello": pack("HELLO") + pack("HELLO", "3") + pack("HELLO", "4") + pack("HELLO", "x"),
    # Redis 7.2 to 8 do not answer a second one: test_failing_logins.py.
    "wrong password": pack("AUTH", "wrong") + pack("AUTH") + pack("GET", "k"),
    "wrong password of a user": pack("AUTH", "default", "wrong") + pack("AUTH") + pack("GET", "k"),
    "wrong password in hello": pack("HELLO", "3", "AUTH", "default", "wrong") + pack("GET", "k"),
    "reset": pack("RESET") + pack("GET", "k"),
    "quit": pack("QUIT") + pack("PING"),
    "inline": b"GET k\r\nPING\r\n",
    "too many arguments": pack("GET", *"abcdefghijk"),
    "ten arguments": pack("GET", *"abcdefghi"),
    "too long an argument": pack("SET", "k", "x" * 16385)[:-16387],
    "a long argument": pack("SET", "k", "x" * 16384),
    "the right password": pack("AUTH", "sesame") + pack("SET", "k", "v" * 20000) + pack("DEL", *(["x"] * 20)),
    "wrong, then right": pack("AUTH", "no")
    + pack("AUTH", "default", "sesame")
    + pack("SET", "k", "v")
    + pack("GET", "k"),
}


@pytest.mark.parametrize("name", BEFORE_AUTH)
def test_before_auth(guarded: Callable[[str], tuple[Engine, Keyrail]], engine_name: str, name: str) -> None:
    """Without a password nothing passes but logging in, in the engine's words, and only little is ever held."""
    engine, keyrail = guarded(engine_name)
    expected = exchange(engine.address, BEFORE_AUTH[name])
    assert exchange(keyrail.address, BEFORE_AUTH[name]) == expected
    assert exchange(keyrail.address, BEFORE_AUTH[name], piece=997) == expected


def test_reset_makes_a_client_unauthenticated_again(
    guarded: Callable[[str], tuple[Engine, Keyrail]], engine_name: str
) -> None:
    """One after the other: an engine may have read on, logged in or not, before it runs what came first."""
    engine, keyrail = guarded(engine_name)
    commands = (["AUTH", "sesame"], ["GET", *"abcdefghijk"], ["RESET"], ["GET", "k"], ["GET", *"abcdefghijk"])
    with engine.wire() as direct, keyrail.wire() as wire:
        for command in commands:
            assert wire.ask(*command) == direct.ask(*command), command


def test_one_clients_password_opens_nothing_for_another(guarded: Callable[[str], tuple[Engine, Keyrail]]) -> None:
    _, keyrail = guarded("valkey-9.1")
    with keyrail.wire() as known, keyrail.wire() as unauthenticated:
        assert known.ask("AUTH", "sesame") == b"+OK\r\n"
        assert known.ask("SET", "k", "v") == b"+OK\r\n"
        assert unauthenticated.ask("GET", "k").startswith(b"-NOAUTH")
        assert known.ask("GET", "k") == b"$1\r\nv\r\n"
        assert unauthenticated.ask("AUTH", "nope").startswith(b"-WRONGPASS")
        assert known.ask("GET", "k") == b"$1\r\nv\r\n"


@pytest.mark.skipif(DIRECT, reason="Keyrail's own doing")
@pytest.mark.parametrize("command", ["SYNC", "PSYNC ? -1", "REPLCONF listening-port 1234", "REPLCONF GETACK *"])
def test_replication_is_refused(fleet: Fleet, engine_name: str, pooling: bool, command: str) -> None:
    keyrail = fleet.keyrail(engine_name, pooling=pooling)
    with keyrail.wire() as wire:
        assert wire.ask(*command.split())[:1] == b"-"
        assert wire.ask("PING") == b"+PONG\r\n"
    assert fleet.engine(engine_name).info("replication")["connected_slaves"] == "0"


UNTELLABLE = ("CLIENT REPLY OFF", "SUBSCRIBE x", "PSUBSCRIBE x", "UNSUBSCRIBE", "MONITOR")


@pytest.mark.skipif(DIRECT, reason="Keyrail's own doing")
@pytest.mark.parametrize("command", UNTELLABLE)
def test_what_would_garble_a_transaction_is_refused(
    fleet: Fleet, engine_name: str, pooling: bool, protocol: int, command: str
) -> None:
    """CLIENT REPLY leaves EXEC's array short of members, SUBSCRIBE x y and UNSUBSCRIBE make it longer than it says:
    nobody could tell any more which reply answers what. Redis's clients do not send them; Keyrail refuses them."""
    with fleet.keyrail(engine_name, pooling=pooling).wire(protocol) as wire:
        assert wire.ask("MULTI") == b"+OK\r\n"
        assert wire.ask("SET", "k", "v") == b"+QUEUED\r\n"
        refusal = wire.ask(*command.split())
        assert refusal[:1] == b"-"
        assert b"MULTI" in refusal
        assert wire.ask("EXEC").startswith(b"-EXECABORT")
        assert wire.ask("PING") == b"+PONG\r\n"
        assert wire.ask("SUBSCRIBE", "x")[-4:] == b":1\r\n"


def test_a_client_that_says_nothing_is_let_be(fleet: Fleet, pooling: bool) -> None:
    with fleet.keyrail("valkey-9.1", pooling=pooling).wire() as wire:
        wire.send(b"*2\r\n$4\r\nECHO\r\n$5\r\nhe")
        assert wire.silent(0.3)
        wire.send(b"llo\r\n")
        assert wire.frame() == b"$5\r\nhello\r\n"


def test_deep_pipeline_answers_while_it_is_being_written(fleet: Fleet, engine_name: str, pooling: bool) -> None:
    """A client that writes thirty thousand commands before it reads gets all replies, in order."""
    keyrail = fleet.keyrail(engine_name, pooling=pooling)
    with keyrail.wire() as wire:
        count = 30_000
        for start in range(0, count, 1000):
            wire.send(b"".join(pack("ECHO", start + i) for i in range(1000)))
        for i in range(count):
            text = b"%d" % i
            assert wire.frame() == b"$%d\r\n%s\r\n" % (len(text), text)


def test_nothing_comes_after_the_close(fleet: Fleet, pooling: bool) -> None:
    with fleet.keyrail("valkey-9.1", pooling=pooling).wire() as wire:
        wire.send(PING + b"*x\r\n" + PING)
        assert wire.frame() == b"+PONG\r\n"
        assert wire.frame().startswith(b"-ERR Protocol error")
        with pytest.raises(Closed):
            wire.frame()
