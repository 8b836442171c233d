"""How long clients pause while a primary is replaced."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from pathlib import Path

import pytest

from loadtest import failover_primary, moving_name, targets
from loadtest.pause import PausingClient
from tests.keyrail_process import DIRECT, environment
from tests.resp import eventually
from tests.server.running import serve


def test_a_client_comes_back_and_knows_its_pauses() -> None:
    replies = iter([b":1\r\n", b"-ERR not now\r\n", b"", b":1000\r\n"])
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            wire, _ = listener.accept()
            for reply in replies:
                request = wire.recv(100)
                assert request == b"*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n"
                if not reply:
                    wire.close()
                    time.sleep(0.05)
                    wire, _ = listener.accept()
                wire.sendall(reply)
            wire.close()

        server = threading.Thread(target=answer)
        server.start()
        begun = time.monotonic()
        client = PausingClient(listener.getsockname()[1], "INCR", b"k")
        server.join()
        eventually(lambda: client.first(begun, b":1000") is not None)
    client.stop()
    first, later = client.first(begun), client.first(begun, b":1000")
    assert first is not None
    assert later is not None
    assert begun < first < later
    assert client.longest(begun) == pytest.approx(1000 * (later - first))
    assert client.longest(later) == 0.0


@pytest.mark.skipif(DIRECT, reason="a plain relay resolves no names")
def test_a_name_leads_where_it_is_told(tmp_path: Path) -> None:
    name = moving_name.MovingName(tmp_path, "redis.example")
    variables = dict(moving_name.environment(tmp_path, environment()["PYTHONPATH"]))
    with serve("--upstream", f"redis://{name.host}:6379", "--policy", "none", variables=variables) as running:
        running.await_line("redis.example cannot be resolved: Name or service not known")
        name.lead_to(1)
        running.await_line(r"127\.0\.0\.1:1 cannot be reached: Connection refused")
        assert name.resolved() > 1


@pytest.mark.long
def test_every_failover_is_measured() -> None:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed here")
    _, found = failover_primary.measured(targets.keyrail_program(), "redis-server", 1, lambda _: None)
    assert len(found) == 12
    assert all(each.unit == "ms" and each.value >= 0 for each in found)
