"""`keyrail scan --fail-on` passes only what it could judge."""

from __future__ import annotations

from pathlib import Path
from random import Random

import hiredis
import pytest

from proxy.cli import main
from proxy.cli.scan_fail_on import are_kept, limits
from proxy.rules.stored import Fault
from proxy.server.stored.model import Bounds, FaultOf, FaultRow, PatternRow, Place, Sample, Scan
from tests.server.stored.fake_servers import FakeServer, Value, error
from tests.server.stored.served import served

NAMES = "  names: {names: {prefixes: {shop: ['cart:']}}}"


def policy(folder: Path, *rules: str) -> str:
    file = folder / "policy.yaml"
    apps = "apps: {shop: {match: {user: shop}}, web: {match: {user: web}}}"
    file.write_text("\n".join(["keyrail: 1", "defaults: {mode: audit}", apps, "rules:", *rules]))
    return str(file)


class Hiding(FakeServer):
    """Its user may not read keys that begin with ``secret``."""

    def redirect(self, key: bytes, asking: bool) -> hiredis.ReplyError | None:
        if key.startswith(b"secret"):
            return error("NOPERM this user has no permissions to access one of the keys used as arguments")
        return super().redirect(key, asking)


def scan(server: FakeServer, policy_file: str, *arguments: str) -> int:
    with served(server) as one:
        return main(["scan", "--upstream", one.url, "--policy", policy_file, "--share", "100%", *arguments])


def server_of(kind: type[FakeServer], **held: Value) -> FakeServer:
    server = kind(Random(1))
    server.held[0] = {name.encode(): value for name, value in held.items()}
    return server


@pytest.mark.parametrize("command", [b"TYPE", b"PTTL"])
def test_a_user_who_may_not_ask_about_keys_gets_no_empty_scan(
    command: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = server_of(FakeServer, a=Value())
    server.refuses = {command}
    assert scan(server, policy(tmp_path, NAMES), "--fail-on", "nobodys") == 1
    shown = capsys.readouterr()
    assert not shown.out
    assert f": {command.decode()}: NOPERM this user has no permissions to run the" in shown.err


def test_keys_that_the_user_may_not_read_may_have_the_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = server_of(Hiding, **{"cart:1": Value(), "secret": Value(), "secrets": Value()})
    file = policy(tmp_path, NAMES)
    assert scan(server, file) == 0
    assert "the user may not read 2 keys" in capsys.readouterr().out
    assert scan(server, file, "--fail-on", "nobodys") == 1
    assert capsys.readouterr().err == "keyrail: --fail-on: cannot tell: 2 keys not readable\n"


def test_a_key_with_a_fault_by_two_rules_counts_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = ["  short: {names: {max_length: 3}}", "  strict: {mode: enforce, names: {max_length: 2}}"]
    server = server_of(FakeServer, long1=Value(), long2=Value(), x=Value())
    file = policy(tmp_path, *rules)
    assert scan(server, file, "--fail-on", "bad-name>2") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["nobody's", "-", "3", "192", "bytes", "3", "2"] in lines
    assert scan(server, file, "--fail-on", "bad-name>1") == 1


def test_a_policy_that_judges_nothing_stored_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = server_of(FakeServer, a=Value())
    file = policy(tmp_path, "  no-keys: {refuse: [KEYS]}", "  off: {mode: off, names: {max_length: 1}}")
    assert scan(server, file) == 0
    assert "\n  no rule of this policy judges stored keys" in capsys.readouterr().out


@pytest.mark.parametrize("limit", ["wrong-type", "nobodys>1%", "bad-name,no-ttl", "too-large"])
def test_a_fault_that_no_rule_can_find_is_a_mistake(
    limit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = ["  short: {names: {max_length: 3}}", "  ttl: {mode: off, lifetime: {default: 1d, max: 7d}}"]
    rules += ["  big: {sizes: {command: 9KB}}"]
    server = server_of(FakeServer, a=Value())
    assert scan(server, policy(tmp_path, *rules), "--fail-on", limit) == 2
    fault = limit.removeprefix("bad-name,").removesuffix(">1%")
    assert capsys.readouterr().err == f"keyrail: --fail-on: no rule of this policy can find {fault}\n"
    assert not server.asked


@pytest.mark.parametrize(
    ("limit", "status", "told"),
    [
        ("nobodys>10%", 0, ""),
        ("nobodys>800", 0, ""),
        ("nobodys>2%", 1, "nobodys>2%: "),
        ("nobodys>500", 1, "cannot tell by a sample: nobodys>500: "),
        ("bad-name", 1, "cannot tell by a sample: bad-name>0: 0 to "),
    ],
)
def test_a_sample_is_judged_by_its_bounds(
    limit: str, status: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {FaultOf(Fault.NOBODYS, ""): FaultRow(500, 0, 0, 0)}
    bounds: dict[tuple[str, ...], Bounds] = {("fault", "nobodys", "sure"): Bounds(350, 700)}
    sample = Sample(0.01, 4_000, 10_000, bounds, Bounds(0, 11))
    patterns = {Place("p", ""): PatternRow(keys=10_000)}
    scan = Scan("u", "p", 0.0, 1.0, True, 0.05, patterns, {}, [], [], faults=rows, sample=sample)
    assert are_kept(limits(limit), scan) == (not status)
    complaint = capsys.readouterr().err
    assert complaint.startswith(f"keyrail: --fail-on: {told}") if told else not complaint


def test_keys_that_only_may_have_the_fault_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = server_of(FakeServer, a=Value(b"list", memory=9000), b=Value(b"list", memory=9000))
    server.refuses = {b"LLEN"}
    assert scan(server, policy(tmp_path, "  caps: {collections: {members: 10}}"), "--fail-on", "too-large") == 0
    told = "keyrail: --fail-on: 2 more keys may be too-large: their members are not counted\n"
    assert capsys.readouterr().err == told
