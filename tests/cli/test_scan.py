"""`keyrail scan`: what it prints, what it keeps, and its exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from proxy.cli import main, walk
from proxy.server.stored.servers import Servers
from tests.server.stored.fake_servers import FakeServer, Value
from tests.server.stored.served import Served, served

POLICY = """
keyrail: 1
defaults: {mode: audit}
apps:
  shop: {team: checkout, contact: "#checkout", match: {user: shop}}
rules:
  names: {names: {prefixes: {shop: ["cart:"], default: ["misc:"]}}}
"""


def carts(number: int = 20) -> FakeServer:
    """A server with so many carts, and a list."""
    server = FakeServer(Random(1))
    server.bits = 8
    server.held = {0: {b"cart:%d" % each: Value(ttl=9000) for each in range(number)}, 3: {b"x": Value(b"list", 5)}}
    return server


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
    with served(carts(20)) as one:
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
        (kept,) = (tmp_path / "state" / "scans").iterdir()
        assert json.loads(kept.read_text()) == told


def test_fail_on(verb: Scan) -> None:
    with served(carts(20)) as one:
        del one.server.held[3]
        one.server.held[0][b"nobody"] = Value()
        limits = {"nobodys": 1, "nobodys>0%": 1, "nobodys>4.7%": 1, "nobodys>4.8%": 0, "nobodys>1": 0, "bad-name": 0}
        for limit, status in limits.items():
            assert verb(one, "--fail-on", limit)[0] == status, limit
        status, shown, complaint = verb(one, "--fail-on", "bad-name>1%,nobodys>0.5%")
    assert (status, complaint) == (1, "keyrail: --fail-on: nobodys>0.5%: 1 keys\n")
    assert "\nnobodys\n  1 by names (audit)\n      nobody of nobody's, 64 bytes: does not begin with a prefix" in shown
    assert "      such as nobody\n" in shown


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--sample", "0%"], "argument --sample: expected a share above 0% and up to 100%"),
        (["--resume"], "argument --resume: it needs --state-dir, and no --sample"),
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
        verb(Served(carts()), *arguments)
    assert ended.value.code == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_stops_it_gets_the_part_that_is_done(verb: Scan, number: signal.Signals, tmp_path: Path) -> None:
    with served(carts(2000)) as one:
        left = iter(range(3000))

        def interrupt(_: tuple[bytes, ...]) -> None:
            if next(left, None) == 2999:
                os.kill(os.getpid(), number)

        one.before = interrupt
        status, shown, complaint = verb(one, "--state-dir", str(tmp_path))
        assert status == 128 + number
        assert "keyrail: interrupted: this is the part that is done\n" in complaint
        assert " (a part: the scan did not come to its end)\n" in shown
        assert f"keyrail: {tmp_path}: nothing is kept of a part\n" in complaint
        assert "keyrail: --resume goes on with this part\n" in complaint
        (kept,) = (tmp_path / "scans").iterdir()
        assert kept.name.startswith("unfinished-")
        asked = [each for each in one.server.asked if each[0] == b"MEMORY"]
        assert 100 < len(asked) < 1500
        status, shown, complaint = verb(one, "--state-dir", str(tmp_path), "--resume", "--json")
        told = json.loads(shown)
        assert (status, told["keys"], told["finished"]) == (0, 2001, True)
        assert "begins anew" not in complaint
        assert (told["nodes"][0]["before"], told["nodes"][0]["after"], told["nodes"][0]["restarts"]) == (2001, 2001, 0)
        asked = [each for each in one.server.asked if each[0] == b"MEMORY"]
        assert {*asked} == {(b"MEMORY", b"USAGE", b"x"), *((b"MEMORY", b"USAGE", b"cart:%d" % n) for n in range(2000))}
        assert len(asked) < 2001 + 300, "what was counted is not asked about again, but for what was under way"
        assert not kept.exists()


def test_what_is_done_is_kept_while_it_goes_on(verb: Scan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed says nothing at its end."""
    monkeypatch.setattr(walk, "_SAVE_SECONDS", 0.01)
    monkeypatch.setattr(walk, "_SAVE_REST", 0)
    found: list[int] = []

    def look(_: tuple[bytes, ...]) -> None:
        kept = (tmp_path / "scans").glob("unfinished-*")
        found.extend(json.loads(each.read_bytes().partition(b"\n")[0])["scan"]["keys"] for each in kept)

    with served(carts(2000)) as one:
        one.before = look
        assert verb(one, "--state-dir", str(tmp_path))[0] == 0
    assert max(found) > 0
    assert not [*(tmp_path / "scans").glob("unfinished-*")]


def test_what_cannot_be_gone_on_with_is_said(verb: Scan, tmp_path: Path) -> None:
    with served(carts(2000)) as one:
        arguments = ("--state-dir", str(tmp_path), "--resume")
        status, _, complaint = verb(one, *arguments)
        assert status == 0
        assert complaint.startswith("keyrail: --resume: there is no unfinished scan of it: the scan begins anew\n")
        left = iter(range(3000))
        one.before = lambda _: os.kill(os.getpid(), signal.SIGINT) if next(left, None) == 2999 else None
        assert verb(one, *arguments)[0] == 130
        one.run_id = "b" * 40
        status, shown, _ = verb(one, *arguments)
        assert (status, shown.partition(" ")[0]) == (0, "2,001")
        assert "its walk started over 1 times, since the server was another one" in shown


def test_a_policy_whose_included_file_has_changed_is_another_one(verb: Scan, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(f"{POLICY}include: [more/*.yaml]\n")
    more = tmp_path / "more" / "rules.yaml"
    more.parent.mkdir()
    more.write_text("rules: {short: {names: {max_length: 40}}}\n")
    with served(carts(2000)) as one:
        left = iter(range(3000))
        one.before = lambda _: os.kill(os.getpid(), signal.SIGINT) if next(left, None) == 2999 else None
        assert verb(one, "--state-dir", str(tmp_path))[0] == 130
        more.write_text("rules: {short: {names: {max_length: 6}}}\n")
        status, shown, complaint = verb(one, "--state-dir", str(tmp_path), "--resume", "--json")
    assert "--resume: the unfinished scan had another policy, or other options: the scan begins anew" in complaint
    too_long = sum(each["milder"] for each in json.loads(shown)["faults"] if each["fault"] == "bad-name")
    assert (status, too_long) == (0, 1990), "those from cart:10 on"


def test_what_is_kept_stays_as_it_is_until_the_server_can_be_asked(
    verb: Scan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(carts(2000)) as one:
        arguments = ("--state-dir", str(tmp_path), "--resume")
        left = iter(range(3000))
        one.before = lambda _: os.kill(os.getpid(), signal.SIGINT) if next(left, None) == 2999 else None
        assert verb(one, *arguments)[0] == 130
        (kept,) = (tmp_path / "scans").iterdir()
        before = kept.read_bytes()
        one.closes_after = 0
        assert verb(one, *arguments)[0] == 1
        assert kept.read_bytes() == before
        one.closes_after = 1 << 60

        async def is_cluster(_: Servers) -> bool:
            return True

        with monkeypatch.context() as patch:
            patch.setattr(Servers, "is_cluster", is_cluster)
            status, _, complaint = verb(one, *arguments)
        assert (status, kept.read_bytes()) == (1, before)
        assert f"keyrail: {one.url}: it is a cluster now: the unfinished scan of it cannot go on\n" in complaint
        one.server.asked.clear()
        status, shown, _ = verb(one, *arguments)
        assert (status, shown.partition(" ")[0]) == (0, "2,001")
        assert sum(each[0] == b"SCAN" for each in one.server.asked) < 500, "from its cursor on"


def test_a_scan_that_is_stopped_before_the_first_key_is_json_too(verb: Scan) -> None:
    signals = [signal.SIGINT]  # a second one would end the test
    with served(carts(20)) as one:
        one.before = lambda command: os.kill(os.getpid(), signals.pop()) if signals and command[0] == b"SCAN" else None
        status, shown, _ = verb(one, "--json")
    assert status == 130
    assert json.loads(shown)["finished"] is False


def test_places_of_the_result_are_checked_before_the_scan(verb: Scan, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with served(carts()) as one:
        status, shown, complaint = verb(one, "--state-dir", str(tmp_path / "file" / "state"))
        assert (status, shown, one.server.asked) == (2, "", [])
        assert verb(one, "--html", str(tmp_path / "none" / "scan.html"))[0] == 2
    assert complaint == f"keyrail: cannot write to {tmp_path / 'file' / 'state'}: Not a directory\n"


def test_a_full_disk_is_told_and_the_result_is_kept_elsewhere(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    with served(carts()) as one, Path("/dev/full").open("w") as full:
        arguments = ["scan", "--upstream", one.url, "--policy", policy, "--state-dir", tmp_path / "state"]
        ended = subprocess.run(
            [sys.executable, "-m", "proxy", *map(str, arguments), "--share", "100%"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (1, "keyrail: cannot print the result: No space left on device\n")
    assert len([*(tmp_path / "state" / "scans").iterdir()]) == 1


def test_a_scan_that_fails_says_why_and_prints_nothing(verb: Scan) -> None:
    with served(carts()) as one:
        one.server.refuses = {b"SCAN"}
        status, shown, complaint = verb(one)
    assert (status, shown) == (1, "")
    assert complaint.startswith(f"keyrail: {one.url}: SCAN: NOPERM")
