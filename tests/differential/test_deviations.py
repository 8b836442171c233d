"""Each row of docs/deviations.md is true: the same commands, direct and through Keyrail, differ as the row says.

`ELSEWHERE` lists the rows with a test in another file.
"""

from __future__ import annotations

import ast
import contextlib
import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Closed, Failure, Wire, eventually, pack

pytestmark = pytest.mark.skipif(DIRECT, reason="Keyrail's own doing")

TESTS = Path(__file__).parents[1]
NewEngine = Callable[..., Engine]
NewKeyrail = Callable[..., Keyrail]
OK = b"+OK\r\n"
LARGE = b"v" * 1_100_000

ELSEWHERE = {
    "`PSYNC`, `SYNC`, `REPLCONF`": ["differential/test_protocol.py::test_replication_is_refused"],
    "`SUBSCRIBE` and `UNSUBSCRIBE` and their relatives, `CLIENT REPLY`, `MONITOR` inside MULTI": [
        "differential/test_protocol.py::test_what_would_garble_a_transaction_is_refused"
    ],
    "`CLIENT TRACKING` with several prefixes that overlap": [
        "tenants/test_tracking.py::test_prefixes_that_overlap_have_one_reply"
    ],
    "`CLIENT MAINT_NOTIFICATIONS`": [
        "differential/test_maint_notifications.py::test_it_is_answered_as_by_an_engine_without_it",
        "differential/test_maint_notifications.py::test_the_engine_is_not_asked",
    ],
    "pushes of RESP3, and attributes": [
        "hotpath/test_pushes.py::test_of_what_comes_between_replies_only_listed_pushes_pass",
        "differential/test_maint_notifications.py::test_a_push_and_an_attribute_of_an_engine_reach_nobody",
    ],
    "`AUTH` and `HELLO … AUTH` inside MULTI": [
        "session/test_handshake.py::test_inside_a_transaction_nobody_logs_in",
        "differential/test_failing_logins.py::test_any_conversation_is_answered_as_one_by_one",
    ],
    "with a cluster upstream, commands of all nodes (`DBSIZE`, `KEYS`, `SCAN`, `SCRIPT LOAD`, `CONFIG SET` …) and of "
    "the cluster (`CLUSTER`, `READONLY`, `ASKING`) inside MULTI": [
        "session/test_nodeless_multi.py::test_a_command_that_is_refused_makes_exec_fail"
    ],
    "a listener that asks for a login, before the login": [
        "differential/test_logins.py::test_before_a_login_nothing_else_is_answered"
    ],
    "`MULTI`, `WATCH` or another command that needs a connection of its own, while a script runs": [
        "failures/test_unblocking.py::test_a_transaction_that_begins_while_a_script_runs_waits_for_its_connection"
    ],
    "a client that leaves more than 8 MB of replies unread for a second, for example of a large pipeline": [
        "failures/test_slow_readers.py::test_one_that_never_reads_is_held_back_and_closed",
        "failures/test_slow_readers.py::test_the_cap_is_configurable",
    ],
    "after Redis restarts": [
        "failures/test_upstream_loss.py::test_idle_clients_survive_a_restart",
        "failures/test_upstream_loss.py::test_clients_with_pending_replies_are_closed",
        "failures/test_restarts.py::test_clients_that_count_on_the_process_are_closed_when_it_is_another",
        "failures/test_restarts.py::test_without_info_the_loss_of_all_connections_counts_as_a_restart",
    ],
}

HERE: dict[str, str] = {}

F = TypeVar("F", bound=Callable[..., None])


def row(name: str) -> Callable[[F], F]:
    """The test is that of the row with this first cell."""

    def note(test: F) -> F:
        assert name not in HERE, f"{name} has a test already: {HERE[name]}"
        HERE[name] = test.__name__
        return test

    return note


def rows() -> list[str]:
    text = (TESTS.parent / "docs" / "deviations.md").read_text(encoding="utf-8")
    table = text.partition("| | what the client gets | why |")[2].splitlines()[2:]
    return [line.removeprefix("| ").split(" | ")[0] for line in table if line.startswith("|")]


def test_each_row_has_a_test() -> None:
    found = rows()
    assert len(found) > 15
    assert sorted([*HERE, *ELSEWHERE]) == sorted(found), "rows without a test, or tests without a row"
    for name in (name for names in ELSEWHERE.values() for name in names):
        file, _, test = name.partition("::")
        tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
        assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, name


@pytest.fixture
def engine(new_engine: NewEngine, engine_name: str) -> Engine:
    return new_engine(engine_name)


@pytest.fixture
def keyrail(engine: Engine, new_keyrail: NewKeyrail) -> Keyrail:
    """With one shared connection, so that clients do share it."""
    return new_keyrail(engine.url, extra=("--upstream-connections", "1"))


def listed(engine: Engine) -> list[dict[str, str]]:
    """The connections of CLIENT LIST that are not the one that asks."""
    with engine.wire() as wire:
        own = wire.value("CLIENT", "ID")
        text = wire.value("CLIENT", "LIST")
    assert isinstance(text, bytes)
    found = [dict(pair.partition("=")[::2] for pair in line.split(" ")) for line in text.decode().splitlines()]
    return [each for each in found if each["id"] != str(own)]


def hello_id(wire: Wire) -> int:
    said = wire.value("HELLO", "2")
    assert isinstance(said, list)
    found = said[said.index(b"id") + 1]
    assert isinstance(found, int)
    return found


@row("`HELLO`'s `id`")
def test_hello_says_the_id_of_a_shared_connection(engine: Engine, keyrail: Keyrail) -> None:
    with engine.wire() as one, engine.wire() as two:
        assert hello_id(one) != hello_id(two)
        assert hello_id(one) == one.value("CLIENT", "ID")
    with keyrail.wire() as one, keyrail.wire() as two:
        assert hello_id(one) == hello_id(two)
        ids = [one.value("CLIENT", "ID"), two.value("CLIENT", "ID")]
        assert ids[0] != ids[1]
        assert hello_id(one) == ids[0], "it has a connection of its own now"
        assert {str(each) for each in ids} <= {each["id"] for each in listed(engine)}
        told = two.value("CLIENT", "INFO")
        assert isinstance(told, bytes)
        assert told.decode().startswith(f"id={ids[1]!r} ")


@row("`CLIENT LIST`, `CLIENT KILL`, `INFO clients`")
def test_redis_knows_the_connections_of_keyrail(engine: Engine, keyrail: Keyrail) -> None:
    before = len(listed(engine))
    with ExitStack() as held:
        direct = [held.enter_context(engine.wire()) for _ in range(8)]
        assert [wire.ask("PING") for wire in direct] == [b"+PONG\r\n"] * 8
        assert len(listed(engine)) == before + 8
    eventually(lambda: len(listed(engine)) == before)
    with ExitStack() as held:
        clients = [held.enter_context(keyrail.wire()) for _ in range(8)]
        assert [wire.ask("SET", "k", "v") for wire in clients] == [OK] * 8
        assert len(listed(engine)) < before + 8
        assert int(engine.info("clients")["connected_clients"]) < before + 8
        eventually(lambda: keyrail.metric("keyrail_clients") == 8)
        # Whoever is killed is a connection of Keyrail, and no client that waits for nothing.
        with engine.wire() as operator:
            operator.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        eventually(lambda: answered(keyrail))
        assert [wire.ask("GET", "k") for wire in clients] == [b"$1\r\nv\r\n"] * 8
    assert {each["name"] for each in listed(engine)} <= {"", "keyrail"}
    with keyrail.wire() as named:
        assert named.ask("CLIENT", "SETNAME", "worker-7") == OK
        named.ask("SUBSCRIBE", "news")
        eventually(lambda: "worker-7" in {each["name"] for each in listed(engine)})
    eventually(lambda: "worker-7" not in {each["name"] for each in listed(engine)})


def answered(keyrail: Keyrail) -> bool:
    """A new client gets a reply; who asks while Keyrail has not noticed yet that a connection was closed does not."""
    with keyrail.wire() as wire, contextlib.suppress(Closed):
        return wire.ask("GET", "k") == b"$1\r\nv\r\n"
    return False


@row("addresses in `CLIENT LIST`, `MONITOR`, `SLOWLOG`, ACL logs")
def test_redis_sees_the_address_of_keyrail(engine: Engine, keyrail: Keyrail) -> None:
    engine.do("CONFIG", "SET", "slowlog-log-slower-than", "0")
    engine.do("ACL", "SETUSER", "default", "-debug")
    for address, is_own in ((engine.address, True), (keyrail.address, False)):
        with Wire(address) as wire, engine.wire() as monitor:
            assert monitor.ask("MONITOR") == OK
            engine.do("SLOWLOG", "RESET")
            engine.do("ACL", "LOG", "RESET")
            assert wire.ask("SET", "seen", "v") == OK
            assert wire.ask("DEBUG", "SLEEP", "0").startswith(b"-NOPERM")
            while b'"SET" "seen"' not in (line := monitor.frame()):
                pass
            shown = re.search(rb"\[0 (\S+)\]", line)
            assert shown is not None
            slow = engine.do("SLOWLOG", "GET", "100")
            assert isinstance(slow, list)
            of_set = [entry for entry in slow if isinstance(entry, list) and entry[3] == [b"SET", b"seen", b"v"]]
            assert isinstance(of_set[0], list)
            denied = engine.do("ACL", "LOG")
            assert isinstance(denied, list)
            assert isinstance(denied[0], list)
            info = denied[0][denied[0].index(b"client-info") + 1]
            assert isinstance(info, bytes)
            own = b"127.0.0.1:%d" % wire.socket.getsockname()[1]
            assert (shown[1] == own, of_set[0][4] == own, b"addr=" + own in info) == (is_own,) * 3
            assert (own.decode() in {each["addr"] for each in listed(engine)}) == is_own


@row("`CLIENT SETNAME`, `GETNAME`, `SETINFO`")
def test_names_are_answered_and_shown_for_those_with_a_connection_of_their_own(
    engine: Engine, keyrail: Keyrail, new_keyrail: NewKeyrail
) -> None:
    def conversation(wire: Wire) -> list[bytes]:
        asked = (
            ["CLIENT", "GETNAME"],
            ["CLIENT", "SETNAME", "shop"],
            ["CLIENT", "GETNAME"],
            ["CLIENT", "SETNAME", "a b"],
            ["CLIENT", "SETINFO", "LIB-NAME", "x"],
        )
        return [wire.ask(*argv) for argv in asked]

    def names() -> set[str]:
        return {each["name"] for each in listed(engine)}

    with engine.wire() as direct:
        replies = conversation(direct)
        assert "shop" in names()
    eventually(lambda: "shop" not in names())
    with keyrail.wire() as wire:
        assert conversation(wire) == replies
        assert wire.ask("SET", "k", "v") == OK
        assert "shop" not in names()
        wire.say("BLPOP", "queue", "0")
        eventually(lambda: "shop" in names())
        engine.do("RPUSH", "queue", "job")
        assert wire.frame().endswith(b"job\r\n")
    with new_keyrail(engine.url, pooling=False).wire() as wire:
        assert conversation(wire) == replies
        eventually(lambda: "shop" in names())


@row("`MONITOR`")
def test_monitor_shows_the_commands_of_keyrail(
    new_engine: NewEngine, engine_name: str, new_keyrail: NewKeyrail
) -> None:
    alone, behind = new_engine(engine_name), new_engine(engine_name)
    with alone.wire() as monitor, alone.wire() as other:
        assert monitor.ask("MONITOR") == OK
        assert other.ask("SET", "k", "v") == OK
        assert b'"SET" "k" "v"' in monitor.frame()
    keyrail = new_keyrail(behind.url)
    with keyrail.wire() as monitor, keyrail.wire() as other:
        assert monitor.ask("MONITOR") == OK
        assert other.ask("SET", "k", "v") == OK
        seen = b""
        while b'"SET" "k" "v"' not in seen or b'"PING"' not in seen:
            seen += monitor.frame()


@row("a NUL byte in the name of a command or subcommand")
def test_a_nul_in_a_name(engine: Engine, keyrail: Keyrail) -> None:
    refusal = b"-ERR unknown command: there is a NUL in its name\r\n"
    with keyrail.wire() as wire, engine.wire() as direct:
        for argv in (["GET\0x", "k"], ["CONFIG", "GET\0", "maxmemory"], ["CLIENT", "LIST\0x"]):
            assert wire.ask(*argv) == refusal
            assert direct.ask(*argv) != refusal
        assert wire.ask("PING") == b"+PONG\r\n"


@row("clients that log in by themselves (`AUTH`, `HELLO … AUTH`) as another user than the one in `--upstream`")
def test_another_user_has_a_connection_of_its_own(engine: Engine, keyrail: Keyrail) -> None:
    engine.do("ACL", "SETUSER", "bob", "on", ">secret", "~*", "+@all")

    with ExitStack() as held:
        clients = [held.enter_context(keyrail.wire()) for _ in range(5)]
        assert [wire.ask("AUTH", "bob", "secret") for wire in clients] == [OK] * 5
        assert [wire.ask("SET", "k", "v") for wire in clients] == [OK] * 5
        assert [each["user"] for each in listed(engine)].count("bob") == 5
        assert [wire.ask("GET", "k") for wire in clients] == [b"$1\r\nv\r\n"] * 5


@row("clients that log in as the user in `--upstream`")
def test_a_changed_password_is_accepted_for_seconds(
    new_engine: NewEngine, engine_name: str, new_keyrail: NewKeyrail
) -> None:
    """And no longer than 10 s: net/test_logins.py turns the clock."""
    engine = new_engine(engine_name, {"requirepass": "old"})
    keyrail = new_keyrail(f"redis://:old@127.0.0.1:{engine.port}", extra=("--client-auth", "upstream"))
    with keyrail.wire() as first, engine.wire() as operator:
        assert operator.ask("AUTH", "old") == OK
        began = time.monotonic()
        assert first.ask("AUTH", "old") == OK
        # Around Keyrail, which cannot notice it.
        assert operator.ask("ACL", "SETUSER", "default", "resetpass", ">new") == OK
        with engine.wire() as direct:
            assert direct.ask("AUTH", "old").startswith(b"-WRONGPASS")
        with keyrail.wire() as second:
            said = second.ask("AUTH", "old")
            assert said == OK or time.monotonic() - began > 10.0


@row("`HELLO 3 SETNAME name AUTH user wrong` of a client that speaks RESP3, on Redis 6.2 and 7.0")
def test_a_name_in_front_of_a_failing_login(engine: Engine, keyrail: Keyrail, engine_name: str) -> None:
    def named(wire: Wire) -> bytes:
        wire.ask("HELLO", "3")
        assert wire.ask("HELLO", "3", "SETNAME", "name", "AUTH", "user", "wrong").startswith(b"-WRONGPASS")
        return wire.ask("CLIENT", "GETNAME")

    with engine.wire() as direct, keyrail.wire() as wire:
        sets = engine_name in ("redis-6.2", "redis-7.0")
        assert (named(direct), named(wire)) == (b"$4\r\nname\r\n" if sets else b"_\r\n", b"_\r\n")


@pytest.fixture
def pair(new_engine: NewEngine, engine_name: str) -> tuple[Engine, Engine]:
    """A primary and its replica, in step."""
    primary = new_engine(engine_name, {"repl-diskless-sync": "yes", "repl-diskless-sync-delay": "0"})
    replica = new_engine(engine_name, {"replicaof": f"127.0.0.1 {primary.port}"})
    replica.await_info("replication", "master_link_status", "up")
    primary.await_info("replication", "connected_slaves", "1")
    return primary, replica


@row("`WAIT`, `WAITAOF`")
def test_wait_covers_all_writes_of_the_client(pair: tuple[Engine, Engine], new_keyrail: NewKeyrail) -> None:
    primary, replica = pair
    rules = ["~*", "+@all", "-spublish"] if primary.kind.is_valkey else ["~*", "+@all"]
    primary.do("ACL", "SETUSER", "narrow", "on", ">secret", *rules)
    narrow = new_keyrail(f"redis://narrow:secret@127.0.0.1:{primary.port}")
    for address in (primary.address, new_keyrail(primary.url).address):
        with Wire(address) as wire:
            assert wire.ask("SET", "k", "v") == OK
            assert wire.ask("WAIT", "1", "30000") == b":1\r\n"
            replica.freeze()
            try:
                assert wire.ask("SET", "k", "v") == OK
                assert wire.ask("WAIT", "1", "30") == b":0\r\n"
            finally:
                replica.thaw()
    with primary.wire() as direct, narrow.wire() as wire:
        assert direct.ask("AUTH", "narrow", "secret") == OK
        for each in (direct, wire):
            assert each.ask("SET", "k", "v") == OK
        assert direct.ask("WAIT", "1", "30000") == b":1\r\n"
        assert (wire.ask("WAIT", "1", "30000") == b":1\r\n") != primary.kind.is_valkey


def _one_is_blocked(direct: Wire) -> bool:
    return b"blocked_clients:1" in direct.ask("INFO", "clients")


@row("`CLIENT PAUSE … WRITE` that does not come through this Keyrail, or inside `MULTI`")
def test_reads_can_wait_behind_a_write_of_another_client(engine: Engine, keyrail: Keyrail) -> None:
    for address, waits in ((engine.address, False), (keyrail.address, True)):
        with Wire(address) as writer, Wire(address) as reader, Wire(address) as operator, engine.wire() as direct:
            assert writer.ask("SET", "k", "v") == OK
            assert direct.ask("CLIENT", "PAUSE", "600000", "WRITE") == OK
            writer.say("SET", "k", "w")
            eventually(partial(_one_is_blocked, direct))
            reader.say("GET", "k")
            if waits:
                assert reader.silent(0.3)
            else:
                assert reader.frame() == b"$1\r\nv\r\n"
            assert operator.ask("CLIENT", "UNPAUSE") == OK, "it does not wait"
            assert writer.frame() == OK
            if waits:
                assert reader.frame() == b"$1\r\nw\r\n"


@row("commands of different clients, sent at the same moment")
def test_scripts_use_another_connection_than_reads(engine: Engine, keyrail: Keyrail) -> None:
    with keyrail.wire() as one, keyrail.wire() as two, engine.wire() as monitor:
        assert monitor.ask("MONITOR") == OK
        assert one.ask("GET", "one") == b"$-1\r\n"
        assert two.ask("GET", "two") == b"$-1\r\n"
        assert two.ask("EVAL", "return 3", "0") == b":3\r\n"
        shown: dict[bytes, bytes] = {}
        while b"EVAL" not in shown:
            found = re.search(rb'\[0 (\S+)\] "(GET" "one|GET" "two|EVAL)"', monitor.frame())
            if found is not None:
                shown[found[2]] = found[1]
    assert shown[b'GET" "one'] == shown[b'GET" "two'] != shown[b"EVAL"]


@row("a value over 1 MB in a command that the policy rewrites or judges")
def test_a_large_value_is_rewritten_where_it_is_the_last_argument(
    engine: Engine, new_keyrail: NewKeyrail, tmp_path: Path
) -> None:
    (tmp_path / "policy.yaml").write_text(
        "keyrail: 1\ndefaults: {mode: enforce}\nrules:\n  lifetimes: {lifetime: {default: 5m}}\n"
    )
    keyrail = new_keyrail(engine.url, policy=tmp_path / "policy.yaml")
    with keyrail.wire() as wire, engine.wire() as direct:
        assert wire.ask("SET", "last", LARGE) == direct.ask("SET", "direct", LARGE) == OK
        assert direct.ask("GET", "last") == direct.ask("GET", "direct")
        assert direct.value("TTL", "last") in range(1, 301)
        assert wire.ask("SET", "small", "v", "XX") == b"$-1\r\n"
        assert direct.ask("SET", "middle", LARGE, "NX") == OK
        direct.ask("DEL", "middle")
        refusal = wire.value("SET", "middle", LARGE, "NX")
        assert isinstance(refusal, Failure)
        assert b"too large: Keyrail cannot add a TTL behind its options" in refusal.text
        assert direct.ask("EXISTS", "middle") == b":0\r\n"


@row("bytes that Redis ignores between arguments (it never looks at the CR LF behind a string)")
def test_what_stands_in_place_of_cr_lf_is_a_protocol_error(engine: Engine, keyrail: Keyrail) -> None:
    sent = b"*2\r\n$3\r\nGETxx$1\r\nkxx" + pack("PING")
    with engine.wire() as direct:
        direct.send(sent)
        if engine.kind.is_valkey:
            assert direct.remaining()[-1].startswith(b"-ERR Protocol error")
        else:
            assert direct.frames(2) == [b"$-1\r\n", b"+PONG\r\n"]
    with keyrail.wire() as wire:
        wire.send(sent)
        (said,) = wire.remaining()
        assert said.startswith(b"-ERR Protocol error")
