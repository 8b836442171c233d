"""A scan's connections, over real sockets: what is asked, what is measured, and what happens when one is lost."""

from __future__ import annotations

import asyncio
import threading
from random import Random
from typing import Any

import pytest

from proxy.net.config.address import UpstreamAddress, parse_upstream
from proxy.server.stored.link import ServerLink
from proxy.server.stored.node_walk import Request
from proxy.server.stored.scanner import Options, ScanError, Scanner, WallClock
from tests.resp import until
from tests.server.stored.fake_servers import FakeJudge, FakeServer, Value
from tests.server.stored.served import served


def filled(keys: int = 300) -> FakeServer:
    server = FakeServer(Random(1))
    server.bits = 8
    server.held = {0: {b"cart:%d" % each: Value(ttl=9000) for each in range(keys)}, 3: {b"x": Value(b"list", 5)}}
    return server


def scan(url: str, judge: FakeJudge, **options: Any) -> Scanner:
    """A scan at full speed."""
    scanner = Scanner(parse_upstream(url), None, judge, str, Options(**{"share": 1.0, **options}), WallClock())
    asyncio.run(scanner.run())
    return scanner


def test_all_databases_are_walked_or_the_one_of_the_url() -> None:
    with served(filled()) as one:
        for url, count in ((one.url, 301), (f"{one.url}/3", 1)):
            judge = FakeJudge()
            found = scan(url, judge).result("")
            assert found.finished
            assert len(judge.judged) == found.keys == count
            assert found.nodes[0].databases == ({0: 300, 3: 1} if count > 1 else {3: 1})
            assert found.bytes == 64 * count


def test_its_connections_have_a_name() -> None:
    with served(filled(3)) as one:
        scan(one.url, FakeJudge())
        assert one.names == [b"keyrail-scan"]


@pytest.mark.parametrize("touches", [False, True])
@pytest.mark.parametrize("no_touch", [False, True])
def test_members_are_counted_where_nothing_is_touched_or_it_may_be(touches: bool, no_touch: bool) -> None:
    with served(filled(3)) as one:
        one.no_touch = no_touch
        found = scan(one.url, FakeJudge(), touches=touches).result("")
        asked = any(each[0] == b"LLEN" for each in one.server.asked)
    assert asked == (touches or no_touch) == (not found.notes)


@pytest.mark.parametrize(
    ("version", "is_safe"),
    [
        ("redis_version:7.4.2", True),
        ("redis_version:8.0.0", False),
        ("redis_version:8.2.3", False),
        ("redis_version:8.4.0", True),
        ("redis_version:10.0.0", True),
        ("redis_version:7.2.4\r\nvalkey_version:8.0.1", True),
        ("redis_version:7.2.4\r\nvalkey_version:8.1.3", False),
        ("redis_version:7.2.4\r\nvalkey_version:9.1.2", True),
        ("no version", False),
    ],
)
def test_who_crashes_by_no_touch_is_not_sent_it(version: str, is_safe: bool) -> None:
    sent: list[tuple[bytes, ...]] = []
    with served(filled(3)) as one:
        one.version, one.before = version, sent.append
        found = scan(one.url, FakeJudge()).result("")
    assert any(command[:2] == (b"CLIENT", b"NO-TOUCH") for command in sent) is is_safe
    assert bool(found.notes) is not is_safe


@pytest.mark.parametrize("same", [True, False])
def test_a_connection_that_is_lost_again_and_again(same: bool) -> None:
    with served(filled()) as one:
        one.closes_after = 250
        if not same:

            def other_process(command: tuple[bytes, ...]) -> None:
                if command == (b"INFO", b"server"):
                    one.run_id = f"{min(one.connections, 4):040}"

            one.before = other_process
        judge = FakeJudge()
        found = scan(one.url, judge).result("")
        assert one.connections > 3
    assert found.keys == len({key.name for key in judge.judged}) == 301
    assert (found.nodes[0].restarts > 0) == (not same)


def test_what_is_answered_too_late_is_no_reply_to_what_is_asked_next() -> None:
    answers = threading.Event()
    with served(filled(3)) as one:
        one.before = lambda command: command[0] == b"PING" and answers.wait(5)

        async def ask() -> None:
            async def find() -> UpstreamAddress:
                return parse_upstream(one.url)

            link = ServerLink(find, None, 0.05)
            await link.connect()
            with pytest.raises(TimeoutError):
                await link.ask(Request(None, [(b"PING",)]))
            asking = asyncio.ensure_future(link.ask(Request(None, [(b"DBSIZE",)])))
            await asyncio.sleep(0)
            answers.set()
            with pytest.raises(ConnectionResetError):
                await asking
            await link.connect()
            assert (await link.ask(Request(None, [(b"DBSIZE",)]))).replies == [3]
            link.close()

        asyncio.run(ask())


def test_a_server_that_is_not_there_is_named() -> None:
    with served(filled()) as one:
        pass
    with pytest.raises(ScanError, match=rf"^{one.url}: Connection refused$"):
        scan(one.url, FakeJudge())


def test_a_scan_that_is_cancelled_has_the_part_that_was_done() -> None:
    with served(filled()) as one:
        judge = FakeJudge()
        scanner = Scanner(parse_upstream(one.url), None, judge, str, Options(1.0), WallClock())

        async def cancel() -> None:
            scanning = asyncio.get_running_loop().create_task(scanner.run())
            await until(lambda: judge.judged)
            scanning.cancel()
            await asyncio.wait([scanning])

        asyncio.run(cancel())
    found = scanner.result("")
    assert not found.finished
    assert 0 < found.keys == len(judge.judged)
