"""A pool whose connection waits while Redis is BUSY is counted, and not kept after that."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from proxy.net.connection import connect
from proxy.session.ports.pool_key import PoolKey


@pytest.mark.parametrize("busy_replies", [0, 2])
def test_a_pool_that_nobody_waits_for_is_not_kept(busy_replies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "_WHILE_BUSY", 0.0)
    busy: Counter[PoolKey] = Counter()
    counted: list[int] = []
    wanted = PoolKey(None, 1, 2)
    replies = [b"-BUSY x\r\n"] * busy_replies + [b"+OK\r\n"]

    async def ask(argv: list[str | int]) -> bytes:
        counted.append(busy[wanted])
        return replies.pop(0)

    upstream: Any = SimpleNamespace(key=wanted._replace(database=0), ask=ask)
    asyncio.run(connect.set_to(upstream, wanted, 10.0, busy))
    assert counted == [0, 1, 1][: busy_replies + 1]
    assert upstream.key == wanted
    assert dict(busy) == {}
