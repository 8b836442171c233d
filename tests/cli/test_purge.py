"""`keyrail purge`: what it says, what it asks for, what it deletes, and its journal."""

from __future__ import annotations

import io
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from proxy.cli import main
from tests.server.stored.fake_servers import FakeServer, Value
from tests.server.stored.served import Served, served

POLICY = """
keyrail: 1
defaults: {mode: enforce}
apps:
  shop: {team: checkout, contact: "#checkout", match: {user: shop}}
rules:
  names: {names: {prefixes: {shop: ["cart:"], default: ["misc:"]}}}
  ledger: {refuse: [DEL, UNLINK], keys: ["cart:ledger:*"]}
"""

Purge = Callable[..., tuple[int, str, str]]


def carts() -> FakeServer:
    server = FakeServer(Random(1))
    server.bits = 8
    server.held = {
        0: {b"cart:%d" % each: Value(ttl=-1 if each < 5 else 9000) for each in range(20)}
        | {b"cart:ledger:1": Value(), b"x:1": Value()},
        3: {b"cart:1": Value()},
    }
    return server


@pytest.fixture
def verb(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Purge:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)

    def run(one: Served, *arguments: str, typed: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        status = main(["purge", "--upstream", one.url, "--policy", str(policy), "--share", "100%", *arguments])
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return run


def test_a_dry_run(verb: Purge) -> None:
    with served(carts()) as one:
        status, shown, _ = verb(one, "--pattern", "cart:*", "--without-ttl", "--dry-run")
        assert status == 0
        lines = shown.splitlines()
        assert lines[0] == "5 keys, 320 bytes: would be deleted"
        assert lines[3].split()[:7] == ["shop", "cart:{int}", "5", "320", "bytes", "5", lines[3].split()[6]]
        assert "left alone: 1 protected by ledger" in lines
        assert "A key is deleted if in the same step it still has its type, has no TTL." in lines
        assert not one.server.changed


def test_json(verb: Purge, tmp_path: Path) -> None:
    with served(carts()) as one:
        status, shown, _ = verb(one, "--pattern", "cart:*", "--without-ttl", "--dry-run", "--json")
        told = json.loads(shown)
        assert status == 0
        assert (told["what"], told["keys"], told["bytes"], told["finished"]) == ("would be deleted", 5, 320, True)
        (row,) = told["patterns"]
        assert (row["app"], row["pattern"], row["keys"], row["without_ttl"]) == ("shop", "cart:{int}", 5, 5)
        assert told["left_alone"] == {"protected by ledger": 1}
        asked = ("--pattern", "cart:*", "--yes", "--journal", str(tmp_path / "journal"))
        told = json.loads(verb(one, *asked, "--json")[1])
        assert (told["what"], told["keys"], told["unknown"], told["refused"]) == ("deleted", 20, 0, {})
        assert {*one.names} == {b"keyrail-purge"}


def test_what_is_typed_has_to_be_the_number_of_keys(verb: Purge, tmp_path: Path) -> None:
    with served(carts()) as one:
        journal = str(tmp_path / "journal")
        for typed in ("", "y\n", "19\n"):
            status, _, complaint = verb(one, "--pattern", "cart:*", "--journal", journal, typed=typed)
            assert (status, complaint) == (1, "keyrail: not confirmed: nothing was done\n")
        assert not one.server.changed
        assert not Path(journal).exists()
        status, shown, _ = verb(one, "--pattern", "cart:*", "--journal", journal, typed="20\n")
        assert status == 0
        assert "Type 20 to delete them: 20 keys, 1.2 KiB: deleted\n" in shown
        assert {*one.server.held[0]} == {b"cart:ledger:1", b"x:1"}
        assert {*one.server.held[3]} == {b"cart:1"}, "another database"


def test_the_journal_has_each_key_before_and_after(verb: Purge, tmp_path: Path) -> None:
    with served(carts()) as one:
        one.server.held[0][b"cart:\xff"] = Value()
        state = tmp_path / "state"
        lines: list[dict[str, Any]] = []

        def look(command: tuple[bytes, ...]) -> None:
            if command[0] == b"EVAL":
                (file,) = state.iterdir()
                lines[:] = [json.loads(line) for line in file.read_text().splitlines()]
                told = [key for line in lines for key in line.get("will", ())]
                assert command[3].decode("utf-8", "surrogateescape") in told

        one.before = look
        status, _, _ = verb(one, "--pattern", "cart:*", "--yes", "--state-dir", str(state))
        assert status == 0
        assert lines
        (file,) = state.iterdir()
        assert file.stat().st_mode & 0o777 == 0o600
        header, *rest = [json.loads(line) for line in file.read_text().splitlines()]
        assert (header["keyrail"], header["version"], header["pattern"]) == ("purge", 1, "cart:*")
        will = [key for line in rest for key in line.get("will", ())]
        done = [key for line in rest for key in line.get("done", ())]
        assert len(will) == len(done) == 21
        assert "cart:\udcff" in done


def test_a_journal_that_cannot_be_written_ends_it_before_anything_is_sent(verb: Purge) -> None:
    with served(carts()) as one:
        status, _, complaint = verb(one, "--pattern", "cart:*", "--yes", "--journal", "/proc/nothing")
        assert (status, complaint) == (1, "keyrail: cannot write /proc/nothing: No such file or directory\n")
        assert not one.server.changed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_stops_it_gets_the_part_that_is_done(verb: Purge, number: signal.Signals, tmp_path: Path) -> None:
    with served(carts()) as one:
        stops = [number]

        def stop(command: tuple[bytes, ...]) -> None:
            if command[0] == b"EVAL" and stops:
                os.kill(os.getpid(), stops.pop())

        one.before = stop
        arguments = ("--pattern", "cart:*", "--yes", "--journal", str(tmp_path / "journal"))
        status, shown, complaint = verb(one, *arguments)
    assert status == 128 + number
    assert complaint == "keyrail: interrupted: this is the part that is done\n"
    assert "(a part: the walk did not come to its end)" in shown


def test_expire_and_limit(verb: Purge, tmp_path: Path) -> None:
    with served(carts()) as one:
        arguments = ("--pattern", "cart:*", "--expire", "7d", "--limit", "3", "--owner", "shop")
        status, shown, _ = verb(one, *arguments, "--yes", "--journal", str(tmp_path / "journal"))
        assert status == 0
        assert shown.startswith("3 keys, 192 bytes: got a TTL, and the limit is reached\n")
        week = 7 * 86_400_000
        assert sum(week <= value.ttl <= 1.1 * week for value in one.server.held[0].values()) == 3


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "the following arguments are required: --pattern"),
        (["--pattern", ""], "argument --pattern: expected a pattern of 1 to 4096 bytes, such as cart:*"),
        (["--pattern", "a*"], "add --journal FILE or --state-dir DIR for the list of what is done, or --dry-run"),
        (["--pattern", "*", "--yes", "--journal", "j"], "--yes is not enough for a pattern of all keys"),
        (["--pattern", "?*", "--yes", "--journal", "j"], "--yes is not enough for a pattern of all keys"),
        (["--pattern", "*", "--owner", "nobody", "--dry-run"], "--owner nobody: the policy has no such app"),
        (["--pattern", "*", "--idle", "200d", "--dry-run"], "argument --idle: expected at most 190d"),
        (["--pattern", "*", "--expire", "0", "--dry-run"], "argument --expire: expected a time from 1s"),
        (["--pattern", "a*", "--journal", "j", "--json"], "--json needs --dry-run or --yes: nobody could confirm"),
        (["--pattern", "*", "--yes", "--dry-run"], "argument --dry-run: not allowed with argument --yes"),
    ],
)
def test_a_wrong_option_is_named(
    arguments: list[str], expected: str, verb: Purge, capsys: pytest.CaptureFixture[str]
) -> None:
    one = Served(carts())
    try:
        status, _, complaint = verb(one, *arguments)
    except SystemExit as ended:
        status, complaint = int(str(ended.code)), capsys.readouterr().err
    assert status == 2
    assert expected in complaint
    assert not one.server.asked
