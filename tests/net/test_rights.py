"""What users may run on each node, and on all."""

from __future__ import annotations

from proxy.net.policy.rights import NAMES, Rights
from proxy.session.ports.pool_key import Node

ONE, OTHER = Node(0), Node(1)
NEEDED = frozenset({"UNLINK", "EXPIRE", NAMES})
NONE: frozenset[str] = frozenset()


def able(*names: str) -> frozenset[str]:
    return frozenset(names)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def told(rights: Rights, node: Node, *names: str, user: str | None = "app", unclear: frozenset[str] = NONE) -> None:
    rights.begin(user, node)
    rights.tell(user, node, able(*names), unclear, NONE)
    if user is not None:
        rights.able[user] = rights.on_all(user)


def test_what_all_nodes_allow() -> None:
    rights = Rights(Clock())
    assert rights.on_all("app") == NONE
    told(rights, ONE, "UNLINK", "EXPIRE")
    told(rights, OTHER, "EXPIRE", NAMES)
    assert rights.able["app"] == able("EXPIRE")
    assert rights.unsettled() == []
    rights.leave(OTHER)
    assert rights.unsettled() == ["app"]
    assert rights.on_all("app") == able("UNLINK", "EXPIRE")
    rights.leave(ONE)
    assert rights.on_all("app") == able("EXPIRE"), "nobody tells of anything else than what is in force"


def test_each_node_is_probed_by_itself() -> None:
    clock = Clock()
    rights = Rights(clock)
    assert rights.due("app", ONE, NEEDED)
    told(rights, ONE, *NEEDED)
    assert not rights.due("app", ONE, NEEDED)
    assert rights.due("app", OTHER, NEEDED)
    told(rights, OTHER, "EXPIRE")
    for now, due in ((4.9, False), (5.0, True)):
        clock.now = now
        assert rights.due("app", OTHER, NEEDED) is due, "it may be given what it lacks there"
        assert not rights.due("app", ONE, NEEDED), "it lacks nothing there"
    assert not rights.due("app", OTHER, able("EXPIRE", NAMES)), "Keyrail answers without the one that it lacks"


def test_doubts_are_about_one_node() -> None:
    clock = Clock()
    rights = Rights(clock)
    for node in (ONE, OTHER):
        told(rights, node, *NEEDED)
    assert rights.contradicts("app", b"-NOPERM this user has no permissions to run the 'unlink' command")
    rights.doubt("app", ONE)
    assert not rights.due("app", ONE, NEEDED), "it was probed just now"
    clock.now = 1.0
    assert [rights.due("app", node, NEEDED) for node in (ONE, OTHER)] == [True, False]
    told(rights, ONE, "EXPIRE", unclear=able("UNLINK"))
    assert rights.able["app"] == able("UNLINK", "EXPIRE"), "as before, until Redis says"
    assert rights.doubted("app", ONE)
    rights.doubt_at_once("app", OTHER)
    assert rights.due("app", OTHER, NEEDED)


def test_another_engine_tells_anew() -> None:
    rights = Rights(Clock())
    told(rights, ONE, "UNLINK")
    told(rights, OTHER, "EXPIRE", user="other")
    rights.tell(None, ONE, NONE, NONE, able("MSETEX"))
    rights.tell(None, OTHER, NONE, NONE, able("GETEX"))
    assert rights.unknown == able("MSETEX", "GETEX")
    rights.renew(ONE)
    assert rights.unknown == able("GETEX")
    assert not rights.known("app")
    assert rights.known("other")
    assert rights.due("app", ONE, NEEDED)
    rights.beginning.add("other")
    assert not rights.known("other"), "another node is being asked"


def test_a_probe_that_fails_because_its_node_leaves_keeps_nothing_of_that_node() -> None:
    rights = Rights(Clock())
    told(rights, ONE, "UNLINK")
    for node in (ONE, OTHER):
        rights.begin("app", node)
    rights.leave(OTHER)
    for node in (ONE, OTHER):
        rights.fail("app", node)
    assert rights.doubted("app", ONE)
    assert not rights.doubted("app", OTHER)
