"""Each command of the table through Keyrail before a real cluster: one plain Redis answers the same, or it is refused
as the documentation says. None hangs, closes its client or names a node."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from proxy.commands.over_nodes import Destination
from proxy.commands.table import STANDARD
from tests.cluster.node_ports import NodePorts
from tests.cluster.nodes import RealCluster
from tests.commands.invocations import INVOCATIONS, split
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Closed, Wire, eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay knows no cluster")

FURTHER = """
SUBSCRIBE c|PSUBSCRIBE c*|SSUBSCRIBE c|SSUBSCRIBE {t}c {t}d|UNSUBSCRIBE|UNSUBSCRIBE c|PUNSUBSCRIBE|SUNSUBSCRIBE
SUNSUBSCRIBE c|PUBLISH c m|SPUBLISH c m|EVAL 'return 1' 0|EVAL 'return redis.call("set",KEYS[1],1)' 1 a
EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0|SCRIPT LOAD 'return 1'|FUNCTION STATS|FUNCTION DUMP|FCALL f 0
MIGRATE 127.0.0.1 1 a 0 100|SELECT 0|SELECT x|AUTH x|AUTH default x|HELLO 9|RESET|INFO|INFO everything|CONFIG GET *
CLIENT LIST|CLIENT INFO|CLIENT GETNAME|CLIENT SETNAME x|CLIENT SETINFO LIB-NAME x|CLIENT TRACKINGINFO|CLIENT GETREDIR
CLIENT KILL 127.0.0.1:1|CLIENT KILL ID 999999|CLIENT UNBLOCK 999999|CLIENT PAUSE 1|CLIENT UNPAUSE|CLIENT NONSENSE
CLIENT CAPA redirect|CLIENT MAINT_NOTIFICATIONS ON|ACL LIST|ACL LOG|ACL SETUSER made up|ACL DRYRUN default get a
SLOWLOG GET|MODULE LOAD /nope|MODULE UNLOAD nope|COMMAND GETKEYS get a|SCAN nope|KEYS *|FLUSHALL SYNC|SORT a STORE b
XREAD BLOCK 10 STREAMS a $|XREADGROUP GROUP g c BLOCK 10 STREAMS a >|PFDEBUG ENCODING a|OBJECT NONSENSE a|PING x
UNWATCH|EXEC|DISCARD|READONLY|ASKING|WAIT 0 10|NONSENSE|NONSENSE a|GET|MGET|LATENCY HISTOGRAM|MEMORY STATS
"""
NOT_COMPARED = {"KEYRAIL", "MULTI", "QUIT", "POST", "HOST:", "PFSELFTEST", "SAVE", "BGSAVE", "BGREWRITEAOF", "DEBUG"}
"""Keyrail's own commands, what ends the connection or changes all behind it, and what disturbs the engine."""
UNLIKE = {
    **dict.fromkeys(("SORT", "SORT_RO"), rb"-ERR (BY|GET) option of SORT denied in Cluster mode"),
    **dict.fromkeys(("MOVE", "SELECT", "COPY"), rb"-ERR .*(not allowed in cluster mode|DB index is out of range)"),
    "SWAPDB": rb"-ERR SWAPDB is not allowed in cluster mode",
    "PSYNC": rb"-DENIED keyrail: a replication link",
    "CLUSTER": rb"-(ERR This instance has cluster support disabled|DENIED keyrail: a replication link)",
    "CLUSTERSCAN": rb"-ERR This instance has cluster support disabled",
}
"""What the documentation says of these beside the one table: how their replies begin."""
REFUSED = rb"-ERR keyrail: [A-Z0-9 -]+ is not available with a cluster upstream: |-CROSSSLOT "
VALUES = {
    "CLIENT ID",
    "ACL GENPASS",
    "TIME",
    "LASTSAVE",
    "RANDOMKEY",
    "CONFIG GET",
    "XADD",
    "SCAN",
    "WAIT",
    "WAITAOF",
    "ROLE",
}
VALUES |= {"SLOWLOG GET", "SLOWLOG LEN"}
"""Replies that differ from one time to the next, or from server to server."""
SYNC = b"behind it"
LONG = 120
KEYRAIL = """
KEYRAIL INFO|KEYRAIL HELP|KEYRAIL POLICY|KEYRAIL RULES|KEYRAIL HOTKEYS|KEYRAIL PATTERNS|KEYRAIL SLOTS|KEYRAIL SCHEMA
KEYRAIL EXPLAIN GET a|KEYRAIL EXPLAIN CLUSTER NODES|KEYRAIL NODE n2 INFO everything|KEYRAIL NODE n2 CLIENT LIST
KEYRAIL NODE n2 CONFIG GET *|KEYRAIL NODE n9 INFO|KEYRAIL NODE 127.0.0.1 INFO|KEYRAIL NONSENSE
"""
LARGE = b"x" * ((1 << 20) + 1)
"""An argument that Keyrail does not collect where it can pass it on in pieces."""


@pytest.fixture(scope="module")
def keyrail(cluster: RealCluster) -> Iterator[Keyrail]:
    started = Keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}")
    eventually(lambda: started.http("/readyz")[0] == 200)
    yield started
    started.close()


def invocations() -> dict[tuple[bytes, ...], None]:
    """Plausible and implausible arguments for each command; keys are of one slot."""
    found = [split(line) for line, _ in INVOCATIONS]
    found += [split(line) for lines in FURTHER.strip().splitlines() for line in lines.split("|")]
    for spec in STANDARD.specs[1:]:
        words = [word.encode() for word in spec.name.split("|")]
        least = abs(spec.arity) - len(words)
        values = [b"a", b"b", *[b"1"] * 6]
        for count in {least, least + (spec.arity < 0), least - 1}:
            found.append([*words, *values[: max(0, count)]])
    tagged = ([re.sub(rb"^[abdk]$", rb"{t}\g<0>", word) for word in argv] for argv in found)
    return dict.fromkeys(tuple(_soon(argv)) for argv in tagged)


def _soon(argv: list[bytes]) -> list[bytes]:
    # What blocks must not do so for long.
    if not argv[0].upper().startswith((b"BL", b"BR", b"BZ")):
        return argv
    place = 1 if argv[0].upper() in (b"BLMPOP", b"BZMPOP") else -1
    return [b"0.01" if index == place % len(argv) else word for index, word in enumerate(argv)]


def asked(wire: Wire, argv: tuple[bytes, ...]) -> bytes:
    """All that comes up to the reply of a PING behind it."""
    wire.say(*argv)
    wire.say("PING", SYNC)
    frames = b""
    try:
        while SYNC not in (frame := wire.frame()):
            frames += frame
    except Closed:
        return frames + b"closed"
    return frames


def test_each_command(cluster: RealCluster, keyrail: Keyrail, new_engine: Callable[..., Engine]) -> None:
    plain = new_engine(cluster.kind.name)
    protocol = 2 if cluster.kind.is_valkey else 3
    ports = NodePorts(cluster)
    unlike = {}
    for argv in invocations():
        name = STANDARD.spec_of(list(argv)).display or "-"
        if name.split()[0] in NOT_COMPARED or {name, argv[0].decode()} & NOT_COMPARED:
            continue
        with plain.wire(protocol) as direct, keyrail.wire(protocol) as proxied:
            for wire in (direct, proxied):
                wire.ask("FLUSHALL")
                wire.ask("SET", "{t}s", "1")
            reply = asked(proxied, argv)
            assert not ports.told_by(reply), (argv, reply)
            assert not reply.endswith(b"closed"), argv
            if re.match(REFUSED, reply) or (
                argv[0].decode() in UNLIKE and re.match(UNLIKE[argv[0].decode()], reply, re.DOTALL)
            ):
                continue
            expected = asked(direct, argv)
            same = reply[:1] == expected[:1] if len(expected) > LONG or name in VALUES else reply == expected
            if not same:
                unlike[argv] = (expected, reply)
    assert unlike == {}


def test_each_command_to_a_named_node(cluster: RealCluster, keyrail: Keyrail) -> None:
    """It comes from a node that may not have the key, and still names none."""
    ports, errors = NodePorts(cluster), 0
    for number, argv in enumerate(invocations()):
        if {STANDARD.spec_of(list(argv)).display.split(" ")[0], argv[0].decode()} & NOT_COMPARED:
            continue
        with keyrail.wire(2 + number % 2) as wire:
            reply = asked(wire, (b"KEYRAIL", b"NODE", b"n%d" % (1 + number % 3), *argv))
        assert not ports.told_by(reply), (argv, reply)
        assert not reply.endswith(b"closed"), argv
        errors += reply.startswith(b"-ERR keyrail: the keys of this ")
    assert errors > 100


def test_keyrail_s_own_commands_name_no_node(cluster: RealCluster, keyrail: Keyrail) -> None:
    ports = NodePorts(cluster)
    with keyrail.wire() as wire:
        for line in KEYRAIL.replace("\n", "|").strip("|").split("|"):
            reply = wire.ask(*line.split())
            assert not ports.told_by(reply), line


def test_commands_of_nodes_with_a_large_argument_are_what_they_are_with_a_small_one(
    cluster: RealCluster, keyrail: Keyrail
) -> None:
    """Those that are not for the node of their keys: each goes to the same nodes, and names none."""
    ports = NodePorts(cluster)
    longest: dict[str, tuple[bytes, ...]] = {}
    for argv in invocations():
        spec = STANDARD.spec_of(list(argv))
        name = spec.display
        by_keys = spec.over_nodes.destination in (Destination.SLOT, Destination.SPLIT)
        if name and not by_keys and not {name.split()[0], name} & NOT_COMPARED:
            longest[name] = max(longest.get(name, ()), argv, key=lambda words: sum(map(len, words)))
    longest["INFO"] = (b"INFO", b"server", b"replication", b"cluster")  # other sections have numbers like ports
    for argv in longest.values():
        with keyrail.wire() as wire:
            wire.say(*argv, LARGE)
            assert not ports.told_by(wire.frame()), argv
