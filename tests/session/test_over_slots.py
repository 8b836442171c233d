"""What rules send behind commands with keys of several slots: to each key's node, and the client hears one reply."""

from __future__ import annotations

from random import Random

import pytest

from proxy.commands.slots import slot_of
from tests.conftest import seeds
from tests.hotpath.routed import owners
from tests.hotpath.test_split import arguments
from tests.policy.given import policy as policy_of
from tests.session.clustered import ClusterRoute, Routed
from tests.session.given import call, route_with

OWNERS = owners(3)
SLIDES = """
rules:
  slides: {lifetime: {default: 5m, sliding: true, keys: "s*"}, mode: enforce}
"""
LASTS = """
cross_slot: split
rules:
  short: {lifetime: {default: 5m, keys: "s*"}, mode: enforce}
  long: {lifetime: {default: 1h, keys: "l*"}, mode: enforce}
"""
STRICT = """
cross_slot: split
rules:
  strict: {lifetime: {default: 5m, without_proof: refuse, keys: "s*"}, mode: enforce}
  slides: {lifetime: {default: 5m, sliding: true, keys: "t*"}, mode: enforce}
"""


def renewal(key: str) -> list[bytes]:
    return [b"EXPIRE", key.encode(), b"300", b"GT"]


def test_what_mget_reads_is_renewed_on_each_node_and_the_reply_comes_then() -> None:
    client = Routed(route_with(SLIDES))
    client.send(call("MGET", "s{a}", "s{b}", "s{c}", "x{a}") + call("PING"))
    client.taken()
    for number, reply in enumerate([b"*1\r\n$1\r\nb\r\n", b"*1\r\n$-1\r\n", b"*2\r\n$1\r\na\r\n$1\r\nx\r\n"]):
        client.at(number).answer(reply)
    assert client.heard() == b""
    assert client.taken() == [[renewal("s{b}")], [renewal("s{c}")], [renewal("s{a}")]]
    for number in (2, 0, 1):
        assert client.heard() == b""
        client.at(number).answer(b":1\r\n")
    assert client.heard() == b"*4\r\n$1\r\na\r\n$1\r\nb\r\n$-1\r\n$1\r\nx\r\n"
    assert [what for _, _, what in client.route.hits].count("followed") == 3
    client.at(0).answer(b"+PONG\r\n")
    assert client.heard() == b"+PONG\r\n"
    assert client.sender.order is None


def test_an_mset_with_one_lifetime_is_split_as_msetex() -> None:
    client = Routed(route_with(LASTS))
    client.say("MSET", "s{a}1", "1", "s{b}", "2", "s{a}2", "3")
    assert client.taken() == [
        [[b"MSETEX", b"1", b"s{b}", b"2", b"EX", b"300"]],
        [],
        [[b"MSETEX", b"2", b"s{a}1", b"1", b"s{a}2", b"3", b"EX", b"300"]],
    ]
    client.at(0).answer(b":1\r\n")
    client.at(2).answer(b":1\r\n")
    assert client.heard() == b"+OK\r\n"


def test_an_mset_with_one_lifetime_that_ran_by_halves_says_so_in_the_client_s_words() -> None:
    client = Routed(route_with(LASTS))
    client.say("MSET", "s{a}1", "1", "s{b}", "2", "s{a}2", "3")
    client.at(0).answer(b":1\r\n")
    client.at(2).answer(b"-OOM no\r\n")
    assert client.heard() == b"-OOM no (MSET ran for 1 of 3 keys, and not for arguments 1, 5)\r\n"


def test_what_is_refused_for_its_hidden_commands_counts_once_and_as_answered_here() -> None:
    client = Routed(route_with(STRICT))
    client.no_hidden_commands = "Redis refused a hidden command"
    client.say("MSET", "s{a}", "1", "t{b}", "2")
    assert client.heard().startswith(b"-DENIED keyrail/strict: ")
    assert client.taken() == [[], [], []]
    assert (client.sender.forwarded, client.local, client.sender.wrote) == (0, 1, False)


def test_an_error_of_a_read_renews_nothing() -> None:
    client = Routed(route_with(SLIDES))
    client.say("MGET", "s{a}", "s{b}")
    client.taken()
    client.at(0).answer(b"*1\r\n$1\r\nb\r\n")
    client.at(2).answer(b"-LOADING later\r\n")
    assert client.heard() == b"-LOADING later\r\n"
    assert client.taken() == [[], [], []]
    assert client.route.hits[-1][2] == "skipped"


def test_between_watch_and_exec_it_is_refused_as_before() -> None:
    client = Routed(route_with(SLIDES))
    client.say("WATCH", "s{a}")
    client.own.answer(b"+OK\r\n")
    client.heard()
    client.say("MGET", "s{a}", "s{b}")
    assert client.heard().startswith(b"-CROSSSLOT")


def test_what_follows_goes_after_its_slot() -> None:
    client = Routed(ClusterRoute(policy_of(SLIDES)))
    client.say("MGET", "s{a}", "s{b}")
    client.at(0).answer(b"*1\r\n$1\r\nb\r\n")
    client.at(2).answer(b"*1\r\n$1\r\na\r\n")
    client.at(2).taken()
    client.at(0).answer(b":1\r\n")
    client.at(2).answer(b"-MOVED 15495 127.0.0.1:7001\r\n")
    assert arguments(client.at(1).taken()) == [renewal("s{a}")]
    client.at(1).answer(b":1\r\n")
    assert client.heard() == b"*2\r\n$1\r\na\r\n$1\r\nb\r\n"


def test_a_client_that_has_left_leaves_no_key_without_a_lifetime() -> None:
    client = Routed(route_with(LASTS))
    client.say("MSET", "s{a}", "1", "l{b}", "2")
    client.at(0).answer(b"+OK\r\n")
    client.connection_lost()
    client.at(2).answer(b"+OK\r\n")
    asked = [(key.node.number, list(question)) for key, (question,), _ in client.route.asked]
    assert sorted(asked) == [
        (0, [b"EXPIRE", b"l{b}", b"3600", b"NX"]),
        (2, [b"EXPIRE", b"s{a}", b"300", b"NX"]),
    ]


@pytest.mark.parametrize("seed", seeds(40, 100))
def test_each_key_that_was_written_has_its_lifetime_and_no_other_has(seed: int) -> None:
    random = Random(seed)
    client = Routed(route_with(LASTS))
    written: dict[bytes, bytes] = {}
    lifetimes: dict[bytes, int] = {}
    broken = set(random.sample(range(3), random.choice([0, 0, 1])))
    keys = [f"{random.choice('slx')}{{{random.choice('abc')}}}{n}" for n in range(random.randint(2, 12))]
    client.say("MSET", *(word for key in keys for word in (key, "v")))
    while client.sender.pending_replies:
        for number in random.sample(range(3), 3):
            for argv in arguments(client.at(number).taken()):
                assert {OWNERS[slot_of(key)] for key in keys_of(argv)} == {number}
                if argv[0] != b"EXPIRE" and number in broken:
                    client.at(number).answer(b"-OOM no\r\n")
                    continue
                for key in keys_of(argv):
                    if argv[0] == b"EXPIRE":
                        assert key in written
                        lifetimes[key] = int(argv[2])
                    else:
                        written[key] = b"v"
                        lifetimes |= {key: int(argv[-1])} if argv[0] == b"MSETEX" else {}
                client.at(number).answer(b"+OK\r\n" if argv[0] == b"MSET" else b":1\r\n")
    assert set(written) == {key.encode() for key in keys if OWNERS[slot_of(key.encode())] not in broken}
    assert lifetimes == {key: 300 if key[:1] == b"s" else 3600 for key in written if key[:1] != b"x"}
    assert client.heard().startswith(b"+OK" if len(written) == len(set(keys)) else b"-OOM no")


def keys_of(argv: list[bytes]) -> list[bytes]:
    match argv[0]:
        case b"EXPIRE":
            return argv[1:2]
        case b"MSETEX":
            return argv[2 : 2 + 2 * int(argv[1]) : 2]
    return argv[1::2]
