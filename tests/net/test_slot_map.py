"""Whom a cluster's nodes take for its primaries, and what is made of that where they disagree."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.commands.slots import SLOTS
from proxy.net.config.endpoint import Endpoint
from proxy.net.topology.slot_map import (
    ClusterNode,
    NoQuorumError,
    OpenSlot,
    OwnSlots,
    SlotMap,
    SlotRange,
    View,
    ViewError,
    agreed,
    read_own_slots,
    read_view,
)
from proxy.wire.decode import read_reply

REPLIES: dict[str, dict[str, str]] = json.loads((Path(__file__).parents[1] / "cluster" / "replies.json").read_text())
ASKED = "10.1.1.1"
OPENED = 100
PRIMARIES = 3


def recorded(name: str) -> View:
    replies = REPLIES[name]
    return read_view(read_reply(replies["NODES"].encode()), read_reply(replies["SLOTS"].encode()), ASKED)


@pytest.mark.parametrize("name", [name for name in REPLIES if "open" in name])
def test_what_a_real_node_tells(name: str) -> None:
    view = recorded(name)
    primaries = [node for node in view.nodes.values() if node.is_primary]
    assert len(view.nodes) == 2 * PRIMARIES
    assert sorted(slots for node in primaries for slots in node.slots) == [(0, 5460), (5461, 10921), (10922, 16383)]
    assert all(node.endpoint is not None and node.endpoint.host == "127.0.0.1" for node in view.nodes.values())
    assert {node.primary_id for node in view.nodes.values() if not node.is_primary} == {node.id for node in primaries}
    assert {node.epoch for node in primaries} == {1, 2, 3}
    (opened,) = view.opened
    assert (opened.slot, opened.target) == (OPENED, view.by)
    assert view.nodes[opened.source].slots == (SlotRange(0, 5460),)


@pytest.mark.parametrize("name", [name for name in REPLIES if "open" in name])
def test_what_a_real_node_tells_of_its_own_slots(name: str) -> None:
    told = read_reply(REPLIES[name]["NODES"].encode())
    assert isinstance(told, bytes)
    own = read_own_slots(told)
    assert own == OwnSlots((SlotRange(5461, 10921),), gives=False)
    opened = OwnSlots(own.slots, gives=True, opened=frozenset({100}))
    assert read_own_slots(told.replace(b"[100-<-", b"[100->-")) == opened
    assert not own.lack(OwnSlots((SlotRange(5462, 10921),), gives=False))
    assert own.lack(OwnSlots((SlotRange(5460, 10921),), gives=False))
    assert read_own_slots(told.replace(b"myself", b"other")) is None


@pytest.mark.parametrize("name", [name for name in REPLIES if "hostname" in name])
def test_names_are_preferred_and_a_node_without_one_is_nowhere(name: str) -> None:
    hosts = [node.endpoint and node.endpoint.host for node in recorded(name).nodes.values()]
    assert sorted(map(str, hosts)) == ["None"] * (2 * PRIMARIES - 1) + ["one.example"]


@pytest.mark.parametrize("name", [name for name in REPLIES if "unknown" in name or "failed" in name])
def test_the_host_that_was_asked_stands_for_none(name: str) -> None:
    view = recorded(name)
    assert {node.endpoint and node.endpoint.host for node in view.nodes.values()} == {ASKED}
    assert [node.failed for node in view.nodes.values()].count(True) == ("failed" in name)


@pytest.mark.parametrize(
    ("nodes", "slots"),
    [
        (b"", []),
        (b"id 1.1.1.1:1@2 master - 0 0 1 connected", []),
        (b"id 1.1.1.1:1@2 myself,master - 0 0", []),
        (b"id nowhere myself,master - 0 0 1 connected", []),
        (b"id 1.1.1.1:1@2 myself,master - 0 0 1 connected 5-99999", []),
        (b"id 1.1.1.1:1@2 myself,master - 0 0 1 connected", [[0, 1, [b"h", b"p", b"id"]]]),
        (b"id 1.1.1.1:1@2 myself,master - 0 0 1 connected", None),
        (None, []),
    ],
)
def test_other_replies_are_errors(nodes: object, slots: object) -> None:
    with pytest.raises(ViewError):
        read_view(nodes, slots, ASKED)


def test_a_node_that_asks_for_a_password_says_what_to_do() -> None:
    with pytest.raises(ViewError, match="it asks for a password: give --upstream a user and a password"):
        read_view(read_reply(b"-NOAUTH Authentication required.\r\n"), None, ASKED)


def test_lines_as_other_versions_write_them() -> None:
    lines = (
        b"aa :7000@17000,,shard-id=5f myself,master - 0 0 1 connected 0-100 102\n"
        b"bb 1.1.1.1:7001@17001,b.example,tls-port=0,shard-id=5f slave aa 0 0 1 connected\n"
        b"cc 1.1.1.1:7002@17002 handshake - 0 0 0 disconnected\n"
        b"dd :0@0 master,noaddr - 0 0 0 disconnected\n"
        b"ee :0@0 master,fail,noaddr - 0 0 2 disconnected 200\n"
    )
    view = read_view(lines, [], ASKED)
    assert list(view.nodes) == ["aa", "bb", "ee"]
    assert (view.nodes["ee"].endpoint, view.nodes["ee"].slots) == (None, ((200, 200),)), "its keys are somewhere"
    assert view.nodes["aa"].endpoint == Endpoint(ASKED, 7000)
    assert view.nodes["aa"].slots == ((0, 100), (102, 102))
    assert view.nodes["bb"].endpoint == Endpoint("1.1.1.1", 7001)


# Agreement


def cluster_of(primaries: int, replicas: int = 1) -> dict[str, ClusterNode]:
    nodes = {}
    for number in range(primaries):
        first, behind = number * SLOTS // primaries, (number + 1) * SLOTS // primaries
        name = f"p{number}"
        nodes[name] = ClusterNode(name, Endpoint(name, 1), epoch=number + 1, slots=(SlotRange(first, behind - 1),))
        for each in range(replicas):
            replica = f"r{number}.{each}"
            nodes[replica] = ClusterNode(replica, Endpoint(replica, 1), False, name, number + 1)
    return nodes


def told_by_all(nodes: dict[str, ClusterNode]) -> dict[str, View]:
    return {name: View(name, nodes) for name in nodes}


def promote(nodes: dict[str, ClusterNode], replica: str, epoch: int) -> dict[str, ClusterNode]:
    """The same cluster after a replica has taken its primary's place."""
    old = nodes[nodes[replica].primary_id]
    return nodes | {
        replica: replace(nodes[replica], is_primary=True, primary_id="", epoch=epoch, slots=old.slots),
        old.id: replace(old, is_primary=False, primary_id=replica, epoch=epoch, slots=()),
    }


def owner_of(found: SlotMap, slot: int) -> str:
    return next(n.id for n in found.primaries() if any(first <= slot <= last for first, last in n.slots))


@given(st.integers(1, 6), st.integers(0, 2), st.randoms(use_true_random=False))
def test_who_all_agree_on_is_what_is_found(primaries: int, replicas: int, chance: random.Random) -> None:
    nodes = cluster_of(primaries, replicas)
    views = [*told_by_all(nodes).values()]
    chance.shuffle(views)
    assert dict(agreed(views).nodes) == nodes
    assert agreed(views).unowned() == 0


@given(st.integers(3, 6), st.integers(0, 5), st.data())
def test_a_promotion_is_believed_as_soon_as_any_member_tells_of_it(
    primaries: int, which: int, data: st.DataObject
) -> None:
    before = cluster_of(primaries)
    replica = f"r{which % primaries}.0"
    after = promote(before, replica, primaries + 1)
    knows = data.draw(st.sets(st.sampled_from(sorted(before)), min_size=1))
    views = [View(name, after if name in knows else before) for name in before]
    slot = before[before[replica].primary_id].slots[0].first
    found = agreed(views)
    assert owner_of(found, slot) == replica
    assert found.unowned() == 0


@given(st.integers(3, 6), st.data())
def test_slots_on_their_way_belong_to_who_serves_them(primaries: int, data: st.DataObject) -> None:
    # As SETSLOT NODE does it: the target takes the slot under a new epoch, the others hear of it in any order.
    before = cluster_of(primaries)
    source, target = before["p0"], before["p1"]
    slot = data.draw(st.integers(0, source.slots[0].last))
    after = before | {
        "p0": replace(
            source,
            slots=tuple(
                SlotRange(*each) for each in ((0, slot - 1), (slot + 1, source.slots[0].last)) if each[0] <= each[1]
            ),
        ),
        "p1": replace(target, epoch=primaries + 1, slots=(SlotRange(slot, slot), *target.slots)),
    }
    knows = data.draw(st.sets(st.sampled_from(sorted(before.keys() - {"p1"})))) | {"p1"}
    found = agreed([View(name, after if name in knows else before) for name in before])
    assert owner_of(found, slot) == "p1"
    assert found.unowned() == 0


def test_a_slot_that_its_owner_has_given_up_is_nobodys() -> None:
    nodes = cluster_of(PRIMARIES)
    views = told_by_all(nodes) | {"p0": View("p0", nodes | {"p0": replace(nodes["p0"], slots=(SlotRange(1, 5460),))})}
    assert agreed(views.values()).unowned() == 1


def test_a_deposed_primary_that_wakes_up_is_believed_by_nobody() -> None:
    before = cluster_of(PRIMARIES)
    after = promote(before, "r0.0", PRIMARIES + 1)
    views = told_by_all(after) | {"p0": View("p0", before)}
    found = agreed(views.values())
    assert owner_of(found, 0) == "r0.0"
    assert not found.nodes["p0"].is_primary


@given(st.integers(3, 6), st.sampled_from(["p0", "r0.0"]))
def test_a_forgotten_node_is_no_member_whatever_it_tells(primaries: int, gone: str) -> None:
    nodes = cluster_of(primaries, 2)
    rest = {name: node for name, node in nodes.items() if name != gone}
    if gone == "p0":
        rest = {name: node for name, node in promote(nodes, "r0.0", 9).items() if name != gone}
    views = [*told_by_all(rest).values(), View(gone, nodes)]
    assert gone not in agreed(views).nodes
    assert agreed(views).unowned() == 0


def test_a_node_that_one_has_met_becomes_a_member_when_most_know_it() -> None:
    nodes = cluster_of(PRIMARIES)
    more = nodes | {"new": ClusterNode("new", Endpoint("new", 1))}
    assert "new" not in agreed((told_by_all(nodes) | {"p0": View("p0", more)}).values()).nodes
    found = agreed([View(name, more) for name in nodes])
    assert found.nodes["new"].is_primary
    assert [node.id for node in found.primaries()] == ["p0", "p1", "p2", "new"]


@given(st.integers(3, 7), st.data())
def test_without_a_majority_of_the_primaries_nothing_follows(primaries: int, data: st.DataObject) -> None:
    nodes = cluster_of(primaries)
    few = data.draw(st.integers(0, primaries // 2))
    names = [f"p{number}" for number in range(few)] + [name for name in nodes if name.startswith("r")]
    views = told_by_all(nodes)
    with pytest.raises(NoQuorumError, match=f"{few} of {primaries} primaries"):
        agreed(views[name] for name in names)
    assert agreed(views[f"p{number}"] for number in range(primaries // 2 + 1)).unowned() == 0


def test_no_view_and_views_of_different_clusters() -> None:
    with pytest.raises(NoQuorumError, match="no node of the cluster answers"):
        agreed([])
    others = {name.upper(): replace(node, id=name.upper()) for name, node in cluster_of(PRIMARIES).items()}
    with pytest.raises(NoQuorumError, match="different clusters"):
        agreed([*told_by_all(cluster_of(PRIMARIES)).values(), *(View(name, others) for name in others)])


def test_a_node_is_failed_when_most_others_say_so() -> None:
    nodes = cluster_of(PRIMARIES)
    told = nodes | {"p0": replace(nodes["p0"], failed=True)}
    views = {name: View(name, told) for name in nodes if name not in ("p0", "r0.0")}
    found = agreed(views.values())
    assert found.nodes["p0"].failed
    assert found.unowned() == nodes["p0"].slots[0].last + 1
    assert not agreed((told_by_all(nodes) | {"p1": View("p1", told)}).values()).nodes["p0"].failed


def test_open_slots_of_all_members_are_known() -> None:
    nodes = cluster_of(PRIMARIES)
    opened = OpenSlot(OPENED, "p0", "p1")
    foreign = OpenSlot(OPENED, "p0", "gone")
    views = told_by_all(nodes) | {"p0": View("p0", nodes, frozenset({opened, foreign}))}
    assert agreed(views.values()).opened == {opened}


def test_the_address_at_which_a_node_was_asked_wins() -> None:
    nodes = cluster_of(PRIMARIES)
    moved = nodes | {"p0": replace(nodes["p0"], endpoint=Endpoint("there", 2))}
    found = agreed((told_by_all(nodes) | {"p0": View("p0", moved)}).values())
    assert found.nodes["p0"].endpoint == Endpoint("there", 2)
