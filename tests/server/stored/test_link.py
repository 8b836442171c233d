"""A scan's connections, over real sockets: what is asked, what is measured, and what happens when one is lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from proxy.cli import main
from proxy.net.config.address import parse_upstream
from proxy.server.stored.scanner import Options, ScanError, Scanner, WallClock
from tests.resp import until
from tests.server.stored.fake_servers import FakeJudge, FakeServer, Value
from tests.server.stored.served import Served, served

POLICY = """
keyrail: 1
defaults: {mode: audit}
apps:
  shop: {team: checkout, contact: "#checkout", match: {user: shop}}
rules:
  names: {names: {prefixes: {shop: ["cart:"], default: ["misc:"]}}}
"""


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


@pytest.mark.parametrize("touches", [False, True])
@pytest.mark.parametrize("no_touch", [False, True])
def test_members_are_counted_where_nothing_is_touched_or_it_may_be(touches: bool, no_touch: bool) -> None:
    with served(filled(3)) as one:
        one.no_touch = no_touch
        found = scan(one.url, FakeJudge(), touches=touches).result("")
        asked = any(each[0] == b"LLEN" for each in one.server.asked)
    assert asked == (touches or no_touch) == (not found.notes)


@pytest.mark.parametrize("same", [True, False])
def test_a_connection_that_is_lost_again_and_again(same: bool) -> None:
    with served(filled()) as one:
        one.closes_after = 250
        if not same:
            reply, ids = one.reply, iter(range(10**6))

            def other_process(database: int, command: tuple[bytes, ...]) -> Any:
                if command == (b"INFO", b"server") and one.connections < 4:
                    one.run_id = f"{next(ids):040}"
                return reply(database, command)

            one.reply = other_process  # type: ignore[method-assign]
        judge = FakeJudge()
        found = scan(one.url, judge).result("")
        assert one.connections > 3
    assert found.keys == len({key.name for key in judge.judged}) == 301
    assert (found.nodes[0].restarts > 0) == (not same)


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


# The verb

Scan = Callable[..., tuple[int, str, str]]


@pytest.fixture
def verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Scan:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)

    def run(one: Served, *arguments: str) -> tuple[int, str, str]:
        status = main(["scan", "--upstream", one.url, "--policy", str(policy), "--share", "100%", *arguments])
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return run


def test_the_verb(verb: Scan, tmp_path: Path) -> None:
    with served(filled(20)) as one:
        one.server.held[0][b"nobody\x1b[1m"] = Value(memory=4096)
        status, shown, _ = verb(one)
        assert status == 0
        assert shown.startswith("22 keys, 5.3 KiB in ")
        assert "\x1b" not in shown, "a key moves no cursor"
        lines = [line.split() for line in shown.splitlines()]
        assert ["shop", "checkout", "20", "1.2", "KiB", "0", "0", "#checkout"] in lines
        status, shown, _ = verb(one, "--json", "--state-dir", str(tmp_path / "state"))
        assert status == 0
        told = json.loads(shown)
        assert (told["keys"], told["finished"], told["apps"][-1]["app"]) == (22, True, "shop")
        (kept,) = (tmp_path / "state").iterdir()
        assert json.loads(kept.read_text()) == told


def test_fail_on(verb: Scan) -> None:
    with served(filled(20)) as one:
        del one.server.held[3]
        one.server.held[0][b"nobody"] = Value()
        limits = {"nobodys": 1, "nobodys>0%": 1, "nobodys>4.7%": 1, "nobodys>4.8%": 0, "nobodys>1": 0, "bad-name": 0}
        for limit, status in limits.items():
            assert verb(one, "--fail-on", limit)[0] == status, limit
        status, shown, complaint = verb(one, "--fail-on", "bad-name>1%,nobodys>0.5%")
    assert (status, complaint) == (1, "keyrail: --fail-on: nobodys>0.5%\n")
    assert "  1 nobodys: names (audit)\n      nobody of nobody's, 64 bytes: does not begin with a prefix" in shown
    assert "      such as nobody\n" in shown


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--upstream", "redis://h:x"], "argument --upstream: bad URL 'redis://h:x': "),
        (["--share", "0%"], "argument --share: expected a share above 0% and up to 100%, such as 5%, got '0%'"),
        (["--share", "5"], "argument --share: expected a share above 0% and up to 100%, such as 5%, got '5'"),
        (["--fail-on", "none>1%"], "such as no-ttl>1% or bad-name>20, got 'none>1%'"),
        (["--fail-on", "no-ttl>101%"], "such as no-ttl>1% or bad-name>20, got 'no-ttl>101%'"),
    ],
)
def test_a_wrong_option_is_named_with_what_was_expected(
    arguments: list[str], expected: str, verb: Scan, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        verb(Served(filled()), *arguments)
    assert ended.value.code == 2
    assert expected in capsys.readouterr().err


def test_ctrl_c_gives_the_part_that_is_done(verb: Scan) -> None:
    with served(filled(2000)) as one:
        reply, left = one.reply, iter(range(3000))

        def interrupt(database: int, command: tuple[bytes, ...]) -> Any:
            if next(left, None) == 2999:
                os.kill(os.getpid(), signal.SIGINT)
            return reply(database, command)

        one.reply = interrupt  # type: ignore[method-assign]
        status, shown, complaint = verb(one)
    assert status == 130
    assert "keyrail: interrupted: this is the part that is done\n" in complaint
    assert " (a part: the scan did not come to its end)\n" in shown


def test_a_scan_that_fails_says_why_and_prints_nothing(verb: Scan) -> None:
    with served(filled()) as one:
        one.server.refuses = {b"SCAN"}
        status, shown, complaint = verb(one)
    assert (status, shown) == (1, "")
    assert complaint.startswith(f"keyrail: {one.url}: SCAN: NOPERM")
