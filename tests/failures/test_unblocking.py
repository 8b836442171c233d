"""A command that ends what others wait for never waits behind it.

Proves, for each of these commands of the table, in database 0 and another one, while writes are paused, a script or a
function runs, or nothing is wrong, sent by a pooled client, by a client with its own connection, and by one that has
logged in: the reply is that of a direct connection, and it comes before the other command ends. A transaction that
begins meanwhile in another database waits for its connection and is not closed.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from proxy.commands.table import STANDARD, ConnectionState
from tests.conftest import kind_named, rest_is_long, seeds
from tests.engines import Engine, client_ids
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Wire, eventually, pack

pytestmark = pytest.mark.skipif(DIRECT, reason="these are the connections themselves")

NewEngine = Callable[..., Engine]
NewKeyrail = Callable[..., Keyrail]

COMMANDS = {
    "CLIENT|UNBLOCK": ["CLIENT", "UNBLOCK", "999999"],
    "CLIENT|UNPAUSE": ["CLIENT", "UNPAUSE"],
    "FAILOVER": ["FAILOVER", "ABORT"],
    "FUNCTION|KILL": ["FUNCTION", "KILL"],
    "SCRIPT|KILL": ["SCRIPT", "KILL"],
    "SHUTDOWN": ["SHUTDOWN", "ABORT"],
}
LOOP = "while true do end"
FUNCTION = f"#!lua name=l\nredis.register_function('loop', function() {LOOP} end)"
KINDS = ("pooled", "own", "user")
LOGIN_SECONDS = 2.0
"""After that, a client has left the connection on which it logged in, or chose a database, to its pool."""
PAUSE_MS = 600_000
"""Longer than any test waits."""


def have_left(*wires: Wire) -> bool:
    """These clients have left the connections of their logins by now, and nobody has heard anything."""
    return wires[-1].silent(LOGIN_SECONDS) and all(wire.silent(0) for wire in wires)


class Stage:
    """An engine, a Keyrail in front of it, and clients of both kinds that hold it up."""

    def __init__(self, engine: Engine, keyrail: Keyrail) -> None:
        self.engine = engine
        self.keyrail = keyrail
        self.held = ExitStack()

    def client(self, database: int, user: bool) -> Wire:
        """A client of Keyrail that has sent something, so that its pool is used."""
        wire = self.held.enter_context(self.keyrail.wire())
        if user:
            assert wire.ask("AUTH", "app", "secret") == b"+OK\r\n"
        assert wire.ask("SELECT", database) == b"+OK\r\n"
        assert wire.ask("SET", "k", "v") == b"+OK\r\n"
        return wire

    def paused(self) -> None:
        """Writes are paused, and clients of all pools have sent some."""
        writers = [self.client(database, user) for database in (0, 5) for user in (False, True)]
        with self.engine.wire() as direct:
            assert direct.ask("CLIENT", "PAUSE", PAUSE_MS, "WRITE") == b"+OK\r\n"
            for writer in writers:
                writer.say("SET", "k", "w")
            eventually(lambda: b"blocked_clients:4" in direct.ask("INFO", "clients"))

    def busy(self, *command: str) -> None:
        """Redis runs a script, and clients of all pools have sent commands behind it."""
        runner = self.client(5, False)
        others = [self.client(database, user) for database in (0, 5) for user in (False, True)]
        runner.say(*command)
        with self.engine.wire() as direct:
            eventually(lambda: direct.ask("GET", "k").startswith(b"-BUSY"))
        for other in others:
            other.say("GET", "k")

    def clear(self) -> None:
        """Everything goes on."""
        with self.engine.wire() as direct:
            for command in ("CLIENT UNPAUSE", "SCRIPT KILL", "FUNCTION KILL"):
                direct.ask(*command.split())
            eventually(lambda: not direct.ask("GET", "k").startswith(b"-BUSY"))
        self.held.close()


SITUATIONS: dict[str, Callable[[Stage], None]] = {
    "nothing is wrong": lambda stage: None,
    "writes are paused": lambda stage: stage.paused(),
    "a script runs": lambda stage: stage.busy("EVAL", LOOP, "0"),
    "a function runs": lambda stage: stage.busy("FCALL", "loop", "0"),
}


def test_each_command_that_ends_what_others_wait_for_is_tried() -> None:
    assert {spec.name for spec in STANDARD.specs if spec.state is ConnectionState.IDLE} == set(COMMANDS)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    engine = Engine(kind_named("redis-7.0"), {"lua-time-limit": "20"})
    engine.do("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
    engine.do("FUNCTION", "LOAD", FUNCTION)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def keyrail(engine: Engine) -> Iterator[Keyrail]:
    keyrail = Keyrail(engine.url)
    yield keyrail
    keyrail.close()


@pytest.fixture(scope="module")
def clients(engine: Engine, keyrail: Keyrail) -> Iterator[dict[tuple[str, int], Wire]]:
    """A client of each kind in each database, after its login: one that is pooled has no connection of its own."""
    stage = Stage(engine, keyrail)
    made = {(kind, database): stage.client(database, kind == "user") for kind in KINDS for database in (0, 5)}
    assert have_left(*made.values())
    for (kind, _), wire in made.items():
        if kind == "own":
            assert wire.ask("WATCH", "x") == b"+OK\r\n"
    yield made
    stage.held.close()


def direct_reply(stage: Stage, situation: str, database: int, command: list[str]) -> bytes:
    with stage.engine.wire() as direct:
        assert direct.ask("SELECT", database) == b"+OK\r\n"
        SITUATIONS[situation](stage)
        reply = direct.ask(*command)
        stage.clear()
        return reply


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("name", COMMANDS)
def test_it_is_answered_as_on_a_direct_connection(
    engine: Engine, keyrail: Keyrail, clients: dict[tuple[str, int], Wire], name: str, situation: str
) -> None:
    stage, command = Stage(engine, keyrail), COMMANDS[name]
    expected = direct_reply(stage, situation, 5, command)
    for kind, wire in clients.items():
        SITUATIONS[situation](stage)
        assert wire.ask(*command) == expected, kind
        stage.clear()
        assert wire.ask("GET", "k").startswith(b"$1"), "and its own database is what it was"


READS = [
    ["GET", "k"],
    ["CLIENT", "LIST"],
    ["PING"],
    ["CONFIG", "GET", "port"],
    ["ROLE"],
    ["SCRIPT", "EXISTS", "f"],
    ["ECHO", "k"],
    ["STRLEN", "k"],
    ["EXISTS", "k", "nokey"],
    ["MGET", "k", "k"],
    ["TTL", "k"],
]


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.long), 50])
def test_it_does_not_wait_behind_reads_of_its_own_client(
    engine: Engine, keyrail: Keyrail, clients: dict[tuple[str, int], Wire], name: str, situation: str, count: int
) -> None:
    """In one write and in several: reads may wait behind another client's write, and it ends what that waits for."""
    stage, command = Stage(engine, keyrail), COMMANDS[name]
    reads = [READS[i % len(READS)] for i in range(count)]
    for kind, wire in clients.items():
        with engine.wire() as direct:
            assert direct.ask("SELECT", kind[1]) == b"+OK\r\n"
            SITUATIONS[situation](stage)
            direct.send(b"".join(pack(*each) for each in (*reads, command)))
            expected = direct.frames(count + 1)
            stage.clear()
        SITUATIONS[situation](stage)
        wire.send(b"".join(pack(*each) for each in reads[: count // 2]))
        wire.send(b"".join(pack(*each) for each in (*reads[count // 2 :], command, ["GET", "k"])))
        if expected[-1] == b"+OK\r\n" or situation != "writes are paused":
            assert wire.frames(count + 1)[-1] == expected[-1], kind
            stage.clear()
        else:  # it has ended nothing, so reads behind a write go on waiting
            stage.clear()
            assert wire.frames(count + 1)[-1] == expected[-1], kind
        assert wire.frame().startswith((b"$1", b"-BUSY")), "what comes behind it has its place, too"


SHA = hashlib.sha1(b"return 1", usedforsecurity=False).hexdigest()
ADMINISTRATIVE = {
    "ACL|DELUSER": ["ACL", "DELUSER", "nobody"],
    "ACL|GETUSER": ["ACL", "GETUSER", "nobody"],
    "ACL|LIST": ["ACL", "LIST"],
    "ACL|LOG": ["ACL", "LOG"],
    "ACL|SETUSER": ["ACL", "SETUSER", "somebody", "off"],
    "ACL|USERS": ["ACL", "USERS"],
    "CLIENT|KILL": ["CLIENT", "KILL", "ID", "999999"],
    "CLIENT|LIST": ["CLIENT", "LIST", "ID", "999999"],
    "CLIENT|PAUSE": ["CLIENT", "PAUSE", str(PAUSE_MS), "WRITE"],
    "CONFIG|GET": ["CONFIG", "GET", "maxmemory-samples"],
    "CONFIG|RESETSTAT": ["CONFIG", "RESETSTAT"],
    "CONFIG|SET": ["CONFIG", "SET", "maxmemory-samples", "5"],
    "LATENCY|LATEST": ["LATENCY", "LATEST"],
    "LATENCY|RESET": ["LATENCY", "RESET"],
    "MODULE|LIST": ["MODULE", "LIST"],
    "SCRIPT|LOAD": ["SCRIPT", "LOAD", "return 1"],
    "SLOWLOG|LEN": ["SLOWLOG", "LEN"],
    "SLOWLOG|RESET": ["SLOWLOG", "RESET"],
}
"""Of the commands that Redis does not pause with writes, those that leave the engine as it is for other tests."""
OVERTAKING = ["CLIENT|KILL", "LATENCY|RESET", "SLOWLOG|RESET"]
"""They change something, and no reply to a read tells whether they have run."""


def some_commands(seed: int) -> list[list[str]]:
    """Commands of administrators, and between them reads that go over shared connections."""
    chance = random.Random(seed)
    commands = [ADMINISTRATIVE[name] for name in chance.sample(sorted(ADMINISTRATIVE), chance.randint(1, 6))]
    if seed % 2:
        return commands
    others = [ADMINISTRATIVE[name] for name in OVERTAKING] + [each for each in READS if each[0] != "SCRIPT"]
    return [chance.choice(others) for _ in range(chance.randint(1, 8))]


@pytest.fixture(scope="module", params=rest_is_long("valkey-9.1", "redis-7.0", "redis-6.2"))
def pausing(request: pytest.FixtureRequest) -> Iterator[tuple[Stage, list[Wire]]]:
    """An engine, and pooled clients of the route's own login and of a user, in two databases."""
    engine = Engine(kind_named(request.param))
    engine.do("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
    keyrail = Keyrail(engine.url)
    stage = Stage(engine, keyrail)
    clients = [stage.client(database, user) for user in (False, True) for database in (0, 5)]
    assert have_left(*clients)
    yield stage, clients
    stage.held.close()
    keyrail.close()
    engine.close()


@pytest.mark.parametrize("seed", seeds(12, 24))
def test_it_does_not_wait_behind_commands_of_administrators(pausing: tuple[Stage, list[Wire]], seed: int) -> None:
    """Nor do these wait behind other clients' writes, in one write and in several."""
    engine, clients = pausing[0].engine, pausing[1]
    commands = [*some_commands(seed), ["CLIENT", "UNPAUSE"], ["GET", "k"]]
    if engine.name == "redis-6.2":  # Redis 6.2 pauses it like a write
        commands = [command for command in commands if command[:2] != ["SCRIPT", "LOAD"]]
    cut = random.Random(seed).randint(0, len(commands) - 2)
    stage = Stage(engine, pausing[0].keyrail)
    stage.paused()
    wire = clients[seed // 2 % len(clients)]
    try:
        for part in (commands[:cut], commands[cut:]):
            wire.send(b"".join(pack(*each) for each in part))
        replies = wire.frames(len(commands))
    finally:
        stage.clear()
    assert replies[-2] == b"+OK\r\n"
    assert [reply[:1] for reply in replies] == kinds_of_replies(engine, commands)


def kinds_of_replies(engine: Engine, commands: list[list[str]]) -> list[bytes]:
    with engine.wire() as direct:
        direct.send(b"".join(pack(*each) for each in commands))
        return [frame[:1] for frame in direct.frames(len(commands))]


def test_each_command_of_administrators_sees_what_was_sent_before_it(engine: Engine, new_keyrail: NewKeyrail) -> None:
    """Among replies of other clients, in pipelines: no command overtakes another one whose reply could show it."""
    keyrail = new_keyrail(engine.url)
    with keyrail.wire() as wire, keyrail.wire() as other:
        for turn in range(200):
            other.send(pack("SET", "k", "x") * 20)
            value = str(3 + turn % 5)
            wire.send(
                pack("SET", "k", value)
                + pack("GET", "k")
                + pack("CONFIG", "SET", "maxmemory-samples", value)
                + pack("CONFIG", "GET", "maxmemory-samples")
                + pack("CONFIG", "SET", "maxmemory-samples", "9")
                + pack("CONFIG", "GET", "maxmemory-samples")
                + pack("GET", "k")
                + pack("SLOWLOG", "RESET")
                + pack("SCRIPT", "FLUSH")
                + pack("SCRIPT", "EXISTS", SHA)
                + pack("SCRIPT", "LOAD", "return 1")
                + pack("SCRIPT", "EXISTS", SHA)
                + pack("SET", "k", "y")
            )
            replies = wire.frames(13)
            said = [value if reply == b"$1\r\nx\r\n" else reply.splitlines()[-1].decode() for reply in replies]
            assert said == ["+OK", value, "+OK", value, "+OK", "9", value, *["+OK"] * 2, ":0", SHA, ":1", "+OK"]
            other.frames(20)


@pytest.fixture(scope="module")
def sliding(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyrail]:
    """Adds a write to each read: GET becomes GETEX, and a hidden EXPIRE follows the others."""
    policy = tmp_path_factory.mktemp("sliding") / "policy.yaml"
    policy.write_text(
        "keyrail: 1\nrules: {sliding: {lifetime: {default: 5m, sliding: true, keys: '*'}, mode: enforce}}\n"
    )
    keyrail = Keyrail(engine.url, policy=policy)
    yield keyrail
    keyrail.close()


@pytest.mark.parametrize("one_write", [True, False])
@pytest.mark.parametrize(
    "read", [["GET", "k"], ["HGET", "h", "f"], ["STRLEN", "k"], ["MGET", "k"]], ids=lambda read: read[0]
)
def test_it_does_not_wait_for_what_a_rule_adds_to_reads(
    engine: Engine, sliding: Keyrail, read: list[str], one_write: bool
) -> None:
    with sliding.wire() as wire, engine.wire() as direct:
        assert wire.ask("HSET", "h", "f", "v")[:1] == b":"
        assert wire.ask("SET", "k", "v") == b"+OK\r\n"
        assert direct.ask("CLIENT", "PAUSE", PAUSE_MS, "WRITE") == b"+OK\r\n"
        try:
            if one_write:
                wire.send(pack(*read) + pack("CLIENT", "UNPAUSE"))
            else:
                wire.say(*read)
                eventually(lambda: b"blocked_clients:1" in direct.ask("INFO", "clients"))
                wire.say("CLIENT", "UNPAUSE")
            assert wire.frames(2)[1] == b"+OK\r\n"
        finally:
            direct.ask("CLIENT", "UNPAUSE")


def test_a_transaction_that_begins_while_a_script_runs_waits_for_its_connection(
    engine: Engine, new_keyrail: NewKeyrail
) -> None:
    """On a new connection SELECT is answered BUSY: the attempt waits until the script is over."""
    stage = Stage(engine, new_keyrail(engine.url, extra=("--connect-timeout", "1s")))
    first = stage.client(7, False)
    assert have_left(first)
    clients = [stage.client(7, user) for user in (False, False, True)]
    stage.busy("EVAL", LOOP, "0")
    for client in clients:
        client.say("MULTI")
    assert clients[0].silent(3.0), "it is closed, or there was a connection left"
    with engine.wire() as direct:
        assert direct.ask("SCRIPT", "KILL") == b"+OK\r\n"
    for client in clients:
        assert client.frame() == b"+OK\r\n"
        client.say("SET", "k", "7")
        client.say("EXEC")
        assert client.frames(2)[1] == b"*1\r\n+OK\r\n"
    stage.clear()


def test_no_command_runs_in_the_database_of_another_pool(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    """A connection changes pools once Redis has confirmed its database, and goes back where Redis refuses that."""
    engine = new_engine()
    engine.do("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
    keyrail = new_keyrail(engine.url)
    with keyrail.wire() as other, keyrail.wire() as chosen:
        for wire, database in ((other, 0), (chosen, 5)):
            assert wire.ask("AUTH", "app", "secret") == b"+OK\r\n"
            assert wire.ask("SELECT", database) == b"+OK\r\n"
            assert have_left(wire)
        engine.do("ACL", "SETUSER", "app", "-select")
        with engine.wire() as direct:
            (lost,) = re.findall(rb"\bid=(\d+) .* db=5 ", direct.ask("CLIENT", "LIST"))
            assert direct.ask("CLIENT", "KILL", "ID", lost) == b":1\r\n"
            eventually(lambda: len(client_ids(direct)) == 4)  # two of Keyrail's, the user's other one, and direct
        chosen.say("SET", "k", "five")
        (error,) = chosen.remaining()
        assert error.startswith(b"-NOPERM"), "Redis refuses the SELECT"
        assert engine.do("EXISTS", "k") == 0, "it ran in database 0"
        assert other.ask("SET", "k", "zero") == b"+OK\r\n"
