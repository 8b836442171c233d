"""Commands on replicas: one connection to each, on which they run in the order in which they came."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from proxy.net.config.endpoint import Endpoint
from proxy.net.pool.replicas import Replicas
from proxy.session.ports.pool_key import Node, PoolKey
from proxy.wire.encode import encode_bulk

PLACE = Endpoint("replica", 7003)
REPLICA = SimpleNamespace(is_primary=False, failed=False, endpoint=PLACE, primary_id="a")
PRIMARIES = {"a": Node(0), "b": Node(1)}
UNREACHED = b"-ERR keyrail: a replica cannot be reached\r\n"


class FakeLink:
    """A connection that answers with what it is asked, once the loop has gone on. CLUSTER MYID gets the ``id`` of its
    node."""

    def __init__(self, key: PoolKey, node_id: str = "r") -> None:
        self.key = key
        self.id = node_id
        self.closed = False
        self.asked: list[bytes] = []

    def ask(self, argv: list[Any]) -> asyncio.Future[bytes]:
        answer = asyncio.get_running_loop().create_future()
        if argv == ["CLUSTER", "MYID"]:
            reply = encode_bulk(self.id.encode())
        else:
            self.asked += argv
            reply = b"+%b\r\n" % argv[0]
        answer.get_loop().call_soon(answer.set_result, reply)
        return answer

    def abort(self) -> None:
        self.closed = True


class Asking:
    """Replicas, of which there is one; ``opened`` are the connections to it, each opened as ``opens`` does it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, opens: Callable[[FakeLink], Coroutine[Any, Any, None]]) -> None:
        self.node = Node(3)
        self.members = [("n4", self.node, REPLICA)]
        self.opened: list[FakeLink] = []
        self.answers: list[object] = []
        self.tasks: list[asyncio.Task[None]] = []
        cluster: Any = SimpleNamespace(
            known=lambda: self.members,
            reachable=lambda endpoint: endpoint,
            login=SimpleNamespace(at=lambda endpoint: endpoint),
            member=PRIMARIES.get,
            identity={self.node: "r"}.get,
            doubt=lambda: None,
        )

        async def open_link(_address: object, _tls: object, _keeper: object, key: PoolKey, _loop: object) -> Any:
            self.opened.append(FakeLink(key))
            link = self.opened[-1]
            await opens(link)
            return SimpleNamespace(upstream=link)

        monkeypatch.setattr("proxy.net.pool.replicas.open_upstream", open_link)
        loop = asyncio.get_running_loop()
        self.replicas = Replicas(cluster, loop, lambda: None, self.start, lambda _: None)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    async def ask(self, *words: bytes) -> list[object]:
        """What each of these commands is answered, all sent at once."""
        for word in words:
            self.replicas.ask([word], None, self.answers.append)
        await asyncio.gather(*self.tasks)
        return self.answers


async def slowly(_: FakeLink) -> None:
    for _turn in range(3):
        await asyncio.sleep(0)


def test_a_burst_of_commands_takes_one_connection_and_keeps_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    async def burst() -> None:
        asking = Asking(monkeypatch, slowly)
        words = [b"%d" % number for number in range(20)]
        assert await asking.ask(*words) == [[("n4", b"+%b\r\n" % word)] for word in words]
        assert [link.asked for link in asking.opened] == [words]
        asking.replicas.close()
        assert all(link.closed for link in asking.opened)

    asyncio.run(burst())


@pytest.mark.parametrize("error", [ConnectionRefusedError(), ValueError("not foreseen")])
def test_whatever_fails_the_client_is_answered(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    async def fail(_: FakeLink) -> None:
        raise error

    async def asked() -> object:
        return await Asking(monkeypatch, fail).ask(b"PING")

    assert asyncio.run(asked()) == [[("n4", UNREACHED)]]


def test_another_server_at_the_address_of_a_replica_gets_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    async def turn_out_another(link: FakeLink) -> None:
        link.id = "another"

    async def asked() -> None:
        asking = Asking(monkeypatch, turn_out_another)
        assert await asking.ask(b"ACL") == [[("n4", UNREACHED)]]
        (link,) = asking.opened
        assert (link.asked, link.closed) == ([], True)

    asyncio.run(asked())


def test_nor_does_the_one_before_at_the_address_of_a_new_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked() -> None:
        asking = Asking(monkeypatch, slowly)
        await asking.ask(b"PING")
        asking.members[:] = [("n5", Node(4), REPLICA)]
        asking.replicas.ask([b"ACL"], None, asking.answers.append)
        await asyncio.gather(*asking.tasks)
        assert asking.answers[-1] == [("n5", UNREACHED)], "it still leads to the first one"
        assert [link.asked for link in asking.opened] == [[b"PING"], []]
        assert all(link.closed for link in asking.opened)

    asyncio.run(asked())


def test_only_replicas_of_the_primaries_that_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked() -> None:
        asking = Asking(monkeypatch, slowly)
        assert not asking.replicas.ask([b"PING"], [PRIMARIES["b"]], asking.answers.append)
        assert asking.replicas.ask([b"PING"], list(PRIMARIES.values()), asking.answers.append)
        await asyncio.gather(*asking.tasks)
        assert asking.answers == [[("n4", b"+PING\r\n")]]

    asyncio.run(asked())


def test_a_replica_that_has_left_keeps_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def leave() -> None:
        asking = Asking(monkeypatch, slowly)
        await asking.ask(b"PING")
        asking.members.clear()
        assert not asking.replicas.ask([b"PING"], None, asking.answers.append)
        (link,) = asking.opened
        assert link.closed

    asyncio.run(leave())
