"""The table has every command, and the connection state of each is decided."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.commands.generate import undecided
from proxy.commands.overlay import state_of
from proxy.commands.recorded import Recorded, standard_commands
from proxy.commands.table import STANDARD, ConnectionState, Lane, Spec


def spec(name: str) -> Spec:
    found = STANDARD.find(name)
    assert found is not None, f"{name} is not in the table"
    return found


def test_every_command_is_decided() -> None:
    commands = {recorded.description.name: recorded for recorded in standard_commands()}
    assert undecided(commands) == []


def test_ids_are_positions_and_zero_is_the_unknown_command() -> None:
    assert [found.id for found in STANDARD.specs] == list(range(len(STANDARD.specs)))
    assert STANDARD.specs[0].state is ConnectionState.UNKNOWN
    assert not any(found.state is ConnectionState.UNKNOWN for found in STANDARD.specs[1:])
    assert list(STANDARD.states) == [found.state for found in STANDARD.specs]
    assert [Lane(code) for code in STANDARD.lanes] == [found.lane for found in STANDARD.specs]


@pytest.mark.parametrize(
    ("state", "names"),
    [
        (ConnectionState.MULTI, "MULTI"),
        (ConnectionState.EXEC, "EXEC"),
        (ConnectionState.DISCARD, "DISCARD"),
        (ConnectionState.WATCH, "WATCH"),
        (ConnectionState.UNWATCH, "UNWATCH"),
        (ConnectionState.SUBSCRIBE, "SUBSCRIBE,PSUBSCRIBE,SSUBSCRIBE"),
        (ConnectionState.UNSUBSCRIBE, "UNSUBSCRIBE,PUNSUBSCRIBE,SUNSUBSCRIBE"),
        (
            ConnectionState.BLOCKING,
            "BLPOP,BRPOP,BRPOPLPUSH,BLMOVE,BLMPOP,BZPOPMIN,BZPOPMAX,BZMPOP,XREAD,XREADGROUP,BLMOVEM",
        ),
        (ConnectionState.WAIT, "WAIT,WAITAOF"),
        (ConnectionState.MONITOR, "MONITOR"),
        (
            ConnectionState.PIN,
            "CLIENT ID,CLIENT INFO,CLIENT GETREDIR,CLIENT TRACKING,CLIENT CACHING,CLIENT NO-EVICT,CLIENT NO-TOUCH",
        ),
        (
            ConnectionState.PIN,
            "CLIENT TRACKINGINFO,READONLY,READWRITE,ASKING,SCRIPT DEBUG,DEBUG,HIMPORT PREPARE,HIMPORT SET",
        ),
        (ConnectionState.REPLY, "CLIENT REPLY"),
        (ConnectionState.SELECT, "SELECT"),
        (ConnectionState.AUTH, "AUTH"),
        (ConnectionState.HELLO, "HELLO"),
        (ConnectionState.RESET, "RESET"),
        (ConnectionState.QUIT, "QUIT"),
        (ConnectionState.NAME, "CLIENT SETNAME,CLIENT GETNAME,CLIENT SETINFO"),
        (ConnectionState.IDLE, "SCRIPT KILL,FUNCTION KILL,SHUTDOWN"),
        (ConnectionState.ADMIN, "CONFIG SET,CLIENT LIST,ACL SETUSER,SCRIPT LOAD,BGSAVE"),
        (ConnectionState.REFUSED, "PSYNC,SYNC,REPLCONF,CLUSTER SYNCSLOTS"),
        (
            ConnectionState.POOL,
            "GET,SET,MSET,EVAL,FCALL,SCAN,PING,PUBLISH,INFO,SCRIPT EXISTS,CONFIG,CLIENT,FT.SEARCH",
        ),
    ],
)
def test_connection_state(state: ConnectionState, names: str) -> None:
    assert {name: spec(name).state for name in names.split(",")} == dict.fromkeys(names.split(","), state)


def test_only_commands_that_another_reply_count_is_known_for_have_one() -> None:
    others = {found.name for found in STANDARD.specs[1:] if not found.one_reply}
    assert others == {
        "SUBSCRIBE",
        "PSUBSCRIBE",
        "SSUBSCRIBE",
        "UNSUBSCRIBE",
        "PUNSUBSCRIBE",
        "SUNSUBSCRIBE",
        "MONITOR",
        "CLIENT|REPLY",
    }


def test_scripts_modules_and_keyspace_walks_are_slow_and_daily_commands_are_not() -> None:
    for name in (
        "EVAL",
        "EVALSHA",
        "FCALL",
        "KEYS",
        "SORT",
        "FLUSHALL",
        "SINTER",
        "ZUNIONSTORE",
        "JSON.GET",
        "FT.SEARCH",
    ):
        assert spec(name).lane is Lane.SLOW, name
    for name in ("GET", "SET", "DEL", "HGETALL", "LRANGE", "MGET", "SCAN", "XADD", "PUBLISH", "SCRIPT EXISTS"):
        assert spec(name).lane is Lane.FAST, name


def test_what_creates_keys_and_what_takes_their_lifetime() -> None:
    for name in ("SET", "LPUSH", "RENAME", "COPY", "XGROUP CREATE", "GEOSEARCHSTORE", "EVAL", "JSON.SET"):
        assert spec(name).creates, name
    for name in ("GET", "LPUSHX", "EXPIRE", "DEL", "HEXPIRE", "PFCOUNT", "FLUSHALL"):
        assert not spec(name).creates, name
    for name in ("SET", "GETSET", "PERSIST", "GETEX", "SUNIONSTORE", "RENAME"):
        assert spec(name).drops_ttl, name
    for name in ("SETNX", "INCR", "LPUSH", "EXPIRE", "PFMERGE"):
        assert not spec(name).drops_ttl, name


@pytest.mark.parametrize("name", ["CONFIG SET", "config set", "CONFIG|SET", "Config  Set", "config|SET"])
def test_names_are_found_as_people_write_them(name: str) -> None:
    found = STANDARD.find(name)
    assert found is not None
    assert (found.name, found.display) == ("CONFIG|SET", "CONFIG SET")


def test_subcommands_belong_to_containers_only() -> None:
    assert {found.name for found in STANDARD.subcommands("script")} >= {"SCRIPT|LOAD", "SCRIPT|KILL", "SCRIPT|FLUSH"}
    assert STANDARD.subcommands("GET") == ()
    for found in STANDARD.specs:
        assert found.container == bool(STANDARD.subcommands(found.name))


def test_records_survive_json() -> None:
    for recorded in standard_commands():
        again = json.loads(json.dumps(recorded.as_record()))
        assert Recorded.from_record(recorded.description.name, again) == recorded


COMPLETING: list[Any] = [
    [b"get", 2, [b"readonly", b"fast"], 1, 1, 1, [b"@read"], [], [], []],
    [b"acme.put", -3, [b"write", b"module"], 1, -1, 2, [], [], [], []],
    [b"acme.wait", 2, [b"module", b"blocking"], 1, 1, 1, [], [], [], []],
    [b"old.six", -2, [b"readonly"], 1, 2, 1, [b"@read"]],
    [b"pick-a-database", 2, [b"loading", b"stale", b"fast"], 0, 0, 0, [b"@fast"], [], [], []],
    [b"observe", -2, [b"noscript", b"loading", b"fast"], 1, -1, 1, [b"@fast"], [], [], []],
    ["acme.box", -2, set(), 0, 0, 0, set(), [], [], [["acme.box|open", 3, {"readonly"}, 2, 2, 1, set(), [], [], []]]],
    [b"client", -2, [], 0, 0, 0, [], [], [], [[b"client|new-thing", 2, [b"noscript"], 0, 0, 0, [], [], [], []]]],
    [
        b"acme.spec",
        -3,
        [b"write"],
        0,
        0,
        0,
        [],
        [],
        [
            {
                b"flags": [b"OW"],
                b"begin_search": {b"type": b"keyword", b"spec": {b"keyword": b"TO", b"startfrom": 1}},
                b"find_keys": {b"type": b"range", b"spec": {b"lastkey": 0, b"keystep": 1, b"limit": 0}},
            }
        ],
        [],
    ],
]


def test_a_running_engine_adds_its_own_commands_and_changes_no_id() -> None:
    table = STANDARD.completed_by(COMPLETING)
    size = len(STANDARD.specs)
    assert table.specs[:size] == STANDARD.specs
    added = {found.name: found for found in table.specs[size:]}
    assert set(added) == {found[0].decode().upper() for found in COMPLETING[1:6]} | {
        "ACME.BOX",
        "ACME.BOX|OPEN",
        "CLIENT|NEW-THING",
        "ACME.SPEC",
    }
    assert (added["ACME.PUT"].state, added["ACME.PUT"].lane) == (ConnectionState.POOL, Lane.SLOW)
    assert added["ACME.WAIT"].state is ConnectionState.BLOCKING
    assert added["OLD.SIX"].state is ConnectionState.POOL
    assert added["ACME.BOX"].container
    assert table.spec_of([b"Acme.Box", b"OPEN", b"k"]) is added["ACME.BOX|OPEN"]
    assert table.spec_of([b"acme.put"]) is added["ACME.PUT"]
    assert table.spec_of([b"get", b"k"]).id == spec("GET").id


def test_a_command_that_may_be_a_renamed_one_gets_a_connection_of_its_own() -> None:
    table = STANDARD.completed_by(COMPLETING)
    for name in ("PICK-A-DATABASE", "OBSERVE", "CLIENT NEW-THING"):
        found = table.find(name)
        assert found is not None
        assert found.state is ConnectionState.PIN, name


def test_undecided_commands_are_told() -> None:
    assert state_of("SOMETHING", frozenset({"loading"}), has_keys=False, container=False) is None
    assert state_of("SOMETHING", frozenset({"noscript"}), has_keys=True, container=False) is None


def test_a_new_command_needs_decisions_and_a_removed_one_leaves_its_facts_behind() -> None:
    commands = {recorded.description.name: recorded for recorded in standard_commands()}
    known = commands.pop("SETRANGE")
    described = known.description._replace(name="SETSOME", categories=frozenset({"write"}))
    commands["SETSOME"] = known._replace(description=described)
    assert sorted(undecided(commands)) == [
        "SETRANGE: it has a row, but no engine knows it",
        "SETSOME: nothing says for which types of keys it is",
        "SETSOME: nothing says whether this write creates keys",
        "SETSOME: nothing says which of its arguments are values to store",
    ]


ODD = st.recursive(
    st.none()
    | st.integers()
    | st.binary(max_size=4)
    | st.text(max_size=4)
    | st.sampled_from([b"index", b"range", "keynum"]),
    lambda inner: (
        st.lists(inner, max_size=11) | st.dictionaries(st.binary(max_size=3) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=30,
)


@settings(deadline=None, max_examples=50)  # each example builds whole tables
@given(ODD, st.lists(ODD, max_size=4), st.integers(), st.integers(), st.integers())
def test_an_odd_reply_never_keeps_the_proxy_from_starting(
    reply: Any, specs: list[Any], first: int, last: int, step: int
) -> None:
    STANDARD.completed_by(reply)
    entry = [b"odd", -2, [b"write"], first, last, step, [], [], specs, specs]
    table = STANDARD.completed_by([entry])
    found = table.find("odd")
    assert found is not None
    assert found.id == len(STANDARD.specs)
