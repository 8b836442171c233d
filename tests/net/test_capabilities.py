"""What is known of the engines of nodes."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from proxy.net.connection.engine import Engine
from proxy.net.policy.capabilities import Capabilities
from proxy.session.ports.pool_key import SOLE_NODE, Node, PoolKey


def test_a_node_that_leaves_while_it_is_asked_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would count as the oldest engine for ever."""
    topology: Any = SimpleNamespace(nodes=(SOLE_NODE, Node(1)), router=object())

    async def main() -> None:
        capabilities = Capabilities(asyncio.get_running_loop(), topology)
        new: Any = SimpleNamespace(key=PoolKey(None, 0, 2))
        old: Any = SimpleNamespace(key=PoolKey(None, 0, 2, topology.nodes[1]))

        async def complete(upstream: object, *_: object) -> None:
            if upstream is old:
                gone, topology.nodes = topology.nodes[1], (SOLE_NODE,)
                capabilities.leave(gone)

        monkeypatch.setattr("proxy.net.policy.capabilities.complete_table", complete)
        assert await capabilities.meet(new, Engine(version=(8, 0)))
        assert await capabilities.meet(old, Engine(version=(7, 0)))
        assert capabilities.engine is not None
        assert capabilities.engine.version == (8, 0)

    asyncio.run(main())
