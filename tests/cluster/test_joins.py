"""Replies of several nodes become one reply, in RESP2 and RESP3; errors say what ran."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from proxy.cluster.joins import first_error, joiner, keys_failed, nodes_failed, published, random_key
from proxy.commands.over_nodes import Destination, Join
from proxy.commands.table import STANDARD
from tests.cluster.nodes import RealCluster
from tests.resp import decode

ERROR = b"-LOADING Redis is loading the dataset in memory\r\n"
NAMES = ["n1", "n2", "n3"]
ONE_TWO = b"*2\r\n%1\r\n+f\r\n+1\r\n%1\r\n+f\r\n+2\r\n"
TWO_ONE = b"*2\r\n%1\r\n+f\r\n+2\r\n%1\r\n+f\r\n+1\r\n"
LIBRARY = b"*1\r\n*4\r\n+name\r\n+l\r\n+functions\r\n%b"
"""A library in a reply to FUNCTION LIST, whose functions each node lists in an order of its own."""
TWO_LIBRARIES = b"*2\r\n" + (LIBRARY % ONE_TWO)[4:] + (LIBRARY % b"*1\r\n%1\r\n+f\r\n+1\r\n")[4:]


@pytest.mark.parametrize(
    ("join", "frames", "joined"),
    [
        (Join.SUM, [b":1\r\n", b":0\r\n", b":41\r\n"], b":42\r\n"),
        (Join.MIN, [b":3\r\n", b":1\r\n", b":2\r\n"], b":1\r\n"),
        (Join.MIN, [b"*2\r\n:1\r\n:5\r\n", b"*2\r\n:2\r\n:0\r\n"], b"*2\r\n:1\r\n:0\r\n"),
        (Join.LOGICAL_AND, [b"*2\r\n:1\r\n:1\r\n", b"*2\r\n:0\r\n:1\r\n"], b"*2\r\n:0\r\n:1\r\n"),
        (Join.LOGICAL_AND, [b"*0\r\n", b"*0\r\n"], b"*0\r\n"),
        (Join.ALL_SUCCEEDED, [b"+OK\r\n", b"+OK\r\n"], b"+OK\r\n"),
        (Join.ONE_SUCCEEDED, [b"-NOTBUSY no\r\n", b"+OK\r\n"], b"+OK\r\n"),
        (Join.ONE_SUCCEEDED, [b"-NOTBUSY one\r\n", b"-NOTBUSY two\r\n"], b"-NOTBUSY one\r\n"),
        (Join.ONE_SUCCEEDED, [b"-NOTBUSY one\r\n", b"-UNKILLABLE two\r\n"], b"-UNKILLABLE two\r\n"),
        (Join.ONE_SUCCEEDED, [b"-BUSY one\r\n", b"-NOTBUSY two\r\n"], b"-BUSY one\r\n"),
        (
            Join.ARRAYS,
            [b"*1\r\n$1\r\na\r\n", b"*0\r\n", b"*2\r\n$1\r\nb\r\n$0\r\n\r\n"],
            b"*3\r\n$1\r\na\r\n$1\r\nb\r\n$0\r\n\r\n",
        ),
        (
            Join.DISTINCT,
            [b"*1\r\n%1\r\n+a\r\n:1\r\n", b"*2\r\n%1\r\n+a\r\n:1\r\n:1\r\n"],
            b"*2\r\n%1\r\n+a\r\n:1\r\n:1\r\n",
        ),
        (Join.DISTINCT, [LIBRARY % ONE_TWO, LIBRARY % TWO_ONE], LIBRARY % ONE_TWO),
        (Join.DISTINCT, [LIBRARY % ONE_TWO, LIBRARY % b"*1\r\n%1\r\n+f\r\n+1\r\n"], TWO_LIBRARIES),
        (Join.DISTINCT, [b"~1\r\n$1\r\na\r\n", b"~1\r\n$1\r\na\r\n"], b"*1\r\n$1\r\na\r\n"),
        (
            Join.SUM_BY_NAME,
            [b"*4\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n:0\r\n", b"*4\r\n$1\r\na\r\n:2\r\n$1\r\nb\r\n:3\r\n"],
            b"*4\r\n$1\r\na\r\n:3\r\n$1\r\nb\r\n:3\r\n",
        ),
    ],
)
def test_joins(join: Join, frames: Sequence[bytes], joined: bytes) -> None:
    assert joiner(join, "SOME", NAMES[: len(frames)])(frames) == joined
    assert joiner(join, "SOME", NAMES[:1])(frames[:1]) == frames[0].replace(b"~", b"*"), "one node is as no join at all"


def test_every_join_of_the_table_exists() -> None:
    elsewhere = {Destination.SPLIT, Destination.SPLIT_IF_ALLOWED, Destination.PUBLISH}
    for spec in STANDARD.specs:
        destination, join = spec.over_nodes
        if join not in (Join.NONE, Join.NOT_NULL) and destination not in elsewhere:
            assert joiner(join, spec.display, NAMES)([ERROR] * 3) == ERROR


@pytest.mark.parametrize(
    ("join", "frames"),
    [
        (Join.SUM, [b":1\r\n", b"+OK\r\n"]),
        (Join.ARRAYS, [b"*0\r\n", b":1\r\n"]),
        (Join.LOGICAL_AND, [b"*1\r\n:1\r\n", b"*2\r\n:1\r\n:1\r\n"]),
        (Join.SUM_BY_NAME, [b"*2\r\n$1\r\na\r\n:1\r\n", b"*2\r\n$1\r\nb\r\n:1\r\n"]),
    ],
)
def test_replies_that_do_not_fit_are_an_error(join: Join, frames: Sequence[bytes]) -> None:
    expected = b"-ERR keyrail: the nodes' replies to SOME THING do not fit each other\r\n"
    assert joiner(join, "SOME THING", NAMES[:2])(frames) == expected


def test_an_error_says_which_nodes_ran_it() -> None:
    assert nodes_failed("FLUSHALL", NAMES, [b"+OK\r\n", ERROR, b"+OK\r\n"]) == (
        b"-LOADING Redis is loading the dataset in memory (FLUSHALL ran on n1, n3, and not on n2)\r\n"
    )
    assert nodes_failed("FLUSHALL", NAMES, [ERROR] * 3) == ERROR, "nothing ran"
    many = [f"n{number}" for number in range(1, 31)]
    assert nodes_failed("X", many, [b":1\r\n"] * 29 + [b"!5\r\nERR x\r\n"]) == (
        b"-ERR x (X ran on n1, n2, n3, n4, n5, n6, n7, n8, n9, n10 and 19 more, and not on n30)\r\n"
    )


def test_an_error_says_for_which_keys_it_ran() -> None:
    assert keys_failed("DEL", 1, [[0, 3], [1], [2]], [ERROR, b":1\r\n", ERROR]) == (
        b"-LOADING Redis is loading the dataset in memory (DEL ran for 1 of 4 keys, and not for arguments 1, 3, 4)\r\n"
    )
    assert keys_failed("MSET", 2, [[0, 2], [1]], [ERROR, b"+OK\r\n"]).endswith(b"not for arguments 1, 5)\r\n")
    assert keys_failed("DEL", 1, [[0], [1]], [ERROR, ERROR]) == ERROR
    assert first_error([b":1\r\n", ERROR]) == ERROR


def test_publish_counts_subscribers_of_all_nodes() -> None:
    others = [b"*2\r\n$1\r\nc\r\n:2\r\n", ERROR, b"*2\r\n$1\r\nc\r\n:1\r\n"]
    assert published("PUBLISH", [b":1\r\n", *others]) == b":4\r\n"
    assert published("PUBLISH", [ERROR, *others]) == ERROR
    assert published("PUBLISH", [b":1\r\n", b"*0\r\n"]).startswith(b"-ERR keyrail: ")


def test_a_random_key_is_of_each_node_by_its_share() -> None:
    frames = [b"$1\r\na\r\n", b":1\r\n", b"$-1\r\n", b":0\r\n", b"$1\r\nb\r\n", b":3\r\n"]
    picks = [random_key(chance / 8, 2, frames) for chance in range(8)]
    assert picks == [b"$1\r\na\r\n"] * 2 + [b"$1\r\nb\r\n"] * 6
    assert random_key(1.0, 2, frames) == b"$1\r\nb\r\n"
    assert random_key(0.5, 2, [b"$-1\r\n", b":0\r\n"]) == b"$-1\r\n"
    assert random_key(0.5, 3, [b"_\r\n", b":0\r\n"]) == b"_\r\n"
    assert random_key(0.5, 3, [ERROR, ERROR]) == ERROR
    assert random_key(0.5, 2, [b"$1\r\na\r\n", b"-NOPERM\r\n"]) == b"$1\r\na\r\n", "DBSIZE may be forbidden"


JOINED = [
    (["DBSIZE"], 2),
    (["KEYS", "*"], 2),
    (["FLUSHALL"], 3),
    (["SCRIPT", "LOAD", "return 1"], 2),
    (["SCRIPT", "EXISTS", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0" * 40], 2),
    (["SCRIPT", "KILL"], 2),
    (["FUNCTION", "LIST"], 2),
    (["FUNCTION", "LIST"], 3),
    (["PUBSUB", "CHANNELS"], 2),
    (["PUBSUB", "NUMSUB", "a", "b"], 3),
    (["PUBSUB", "NUMPAT"], 2),
    (["CONFIG", "RESETSTAT"], 2),
    (["CONFIG", "SET", "maxmemory", "0"], 3),
    (["SLOWLOG", "RESET"], 2),
    (["LASTSAVE"], 2),
]


@pytest.mark.parametrize(
    ("words", "protocol"), JOINED, ids=lambda each: " ".join(each) if isinstance(each, list) else ""
)
def test_on_real_nodes_the_shape_is_that_of_one(cluster: RealCluster, words: list[str], protocol: int) -> None:
    spec = STANDARD.spec_of([word.encode() for word in words])
    frames = []
    for node in cluster.primaries():
        with node.wire(protocol) as wire:
            frames.append(wire.ask(*words))
    found = joiner(spec.over_nodes.join, spec.display, NAMES)(frames)
    assert found[:1] == frames[0][:1]
    assert type(decode(found)) is type(decode(frames[0]))
