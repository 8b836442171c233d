"""The tests of a policy are run when it comes into force: at the start, and at a reload.

Proves: those that fail are logged with their lines, or refuse the policy (`--policy-tests refuse`); a file that was
refused is followed, so that mending it is enough; no test, and no number of tests, delays a start or a reload for long.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from proxy.net.config.address import UpstreamAddress
from proxy.net.config.settings import PolicyKind, PolicySource, RouteSettings
from proxy.policy.load import load_policy
from proxy.server import policy_tests
from proxy.server.policy_tests import failing
from tests.server.running import refused, serve

POLICY = "keyrail: 1\nrules: {no-keys: {refuse: [KEYS]}}\ntests:\n"
RIGHT = POLICY + "  - {send: KEYS *, refused_by: no-keys}\n"
WRONG = RIGHT + "  - {send: DBSIZE, refused_by: no-keys}\n"
LINE = "policy test: FAIL {}:5: DBSIZE: refused by no-keys, got it unchanged"

NOWHERE = ("--upstream", "redis://127.0.0.1:1")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "p.yaml"


def test_failing_tests_are_logged(file: Path) -> None:
    file.write_text(WRONG)
    arguments = (*NOWHERE, "--policy", str(file), "--watch", "off")
    with serve(*arguments) as keyrail:
        keyrail.ready().await_line(f"^keyrail: {LINE.format(file)}$")
        assert any(" warning keyrail: policy test: FAIL" in line for line in keyrail.stamped)
        file.write_text(WRONG + "  - {send: PING, refused_by: no-keys}\n")
        keyrail.process.send_signal(signal.SIGHUP)
        keyrail.await_line("^keyrail: policies reloaded: generation 2$")
        assert f"{file}:6: PING: refused by no-keys, got it unchanged" in keyrail.stderr
    with serve(*arguments, "--policy-tests", "off") as keyrail:
        keyrail.ready().process.send_signal(signal.SIGHUP)
        keyrail.await_line("policies are the same")
        assert "policy test" not in keyrail.stderr


def test_failing_tests_refuse_a_policy(file: Path) -> None:
    file.write_text(WRONG)
    assert refused(["--policy", str(file), "--policy-tests", "refuse"]) == (2, [f"keyrail: {LINE.format(file)}"])
    more = file.with_name("more.yaml")
    more.write_text("tests: [{send: PING, unchanged: true}]\n")
    file.write_text(f"include: [more.yaml]\n{RIGHT}")
    with serve(*NOWHERE, "--policy", str(file), "--policy-tests", "refuse") as keyrail:
        keyrail.ready()
        more.write_text("tests: [{send: PING, refused_by: no-keys}]\n")
        keyrail.await_line("^keyrail: policies not reloaded: generation 1 stays$")
        assert f"keyrail: policy test: FAIL {more}:1: PING: refused by no-keys, got it unchanged\n" in keyrail.stderr
        more.write_text("tests: [{send: PING, unchanged: true}, {send: DBSIZE, unchanged: true}]\n")
        keyrail.await_line("^keyrail: policies reloaded: generation 2$")


def test_many_tests_take_bounded_time_and_space(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lines(text: str) -> tuple[str, ...]:
        file.write_text(text)
        route = RouteSettings("r", (), UpstreamAddress(), PolicySource(PolicyKind.FILE, str(file)))
        return failing((route, route), (load_policy(file),) * 2)

    assert lines(RIGHT) == ()
    many = lines(POLICY + "  - {send: DBSIZE, refused_by: no-keys}\n" * 300)
    assert many[10:] == (f"policy test: 290 more failed: run keyrail check {file}",)
    monkeypatch.setattr(policy_tests, "SECONDS", -1.0)
    assert lines(WRONG) == (f"policy test: 2 of 2 tests of {file} did not run within -1 s: run keyrail check {file}",)
