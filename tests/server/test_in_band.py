"""KEYRAIL HOTKEYS and its relatives from a client, over all workers, with Redis up and down."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from proxy.commands.slots import slot_of
from tests.engines import Engine
from tests.resp import pack
from tests.server.running import Running, serve, ticks

_MOVING = ("rate", "share", "bytes_in", "bytes_out", "refused")
POLICY = """
keyrail: 1
alerts: {big_value: 60B}
rules:
  closed: {refuse: [KEYRAIL PATTERNS], mode: enforce}
"""


def test_the_busiest_keys_and_who_is_behind_them_while_redis_is_down(
    new_engine: Callable[..., Engine], tmp_path: Path
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    engine = new_engine()
    with serve("--upstream", engine.url, "--policy", str(tmp_path / "policy.yaml"), "--workers", "2") as running:
        (port,) = running.ready().ports()
        with redis.Redis(port=port, protocol=3, decode_responses=True, client_name="spark") as client:
            client.set("user:7", "x" * 100)
            with client.pipeline(transaction=False) as pipeline:
                for _ in range(30):
                    pipeline.get("user:7")
                pipeline.get("cart:{9}:b")
                pipeline.execute()
            found = _told(client, "HOTKEYS", "COUNT", "1", "BY", "reads")
            (key,) = found["keys"]
            assert (key["key"], key["count"], key["slot"]) == ("user:7", 31, slot_of(b"user:7"))
            assert (key["reads"], key["writes"]) == (30, 1)
            assert key["clients"][0].startswith("100.0% app unknown, user default, spark, redis-py"), key["clients"]
            with pytest.raises(redis.ResponseError, match="DENIED keyrail/closed"):
                client.execute_command("KEYRAIL", "PATTERNS")
            for subject, listed in (("CLIENTS", "clients"), ("SLOW", "commands"), ("INCIDENTS", "incidents")):
                _same_as_by_http(running, client, subject, listed)
            with running.wire() as wire:
                wire.send(pack("GET", "user:7") + pack("KEYRAIL", "SLOTS", "COUNT", "1", "WINDOW", "10") + pack("PING"))
                first, slots, last = wire.frames(3)
                assert first.startswith(b"$100\r\n")
                assert b"$4\r\nslot\r\n:%d\r\n" % slot_of(b"user:7") in slots
                assert last == b"+PONG\r\n"
                engine.close()
                wire.send(pack("KEYRAIL", "HOTKEYS", "WINDOW", "600"))
                assert b"$6\r\nuser:7\r\n" in wire.frames(1)[0]
        with running.wire() as late:
            late.send(pack("KEYRAIL", "HOTKEYS"))
            assert b"$6\r\nuser:7\r\n" in late.frames(1)[0]


def _same_as_by_http(running: Running, client: Any, subject: str, listed: str) -> None:
    """The rows are those of the admin port; figures that change while the test looks are left out."""
    seen: Any = None
    for _ in ticks():
        own = client.execute_command("KEYRAIL", subject, "COUNT", "1")[listed]
        other = running.json(f"/{subject.lower()}?count=1")[listed]
        seen = [{name: row[name] for name in row if name not in _MOVING} for row in (*own, *other)]
        if len(seen) == 2 and seen[0] == seen[1]:
            assert own[0].keys() == other[0].keys()
            return
    raise AssertionError(seen)


def _told(client: Any, *words: str) -> Any:
    """The answer, once the traces of all that was done are in it."""
    found: Any = None
    for _ in ticks():
        found = client.execute_command("KEYRAIL", *words)
        if found["keys"] and found["keys"][0]["clients"]:
            return found
    raise AssertionError(found)
