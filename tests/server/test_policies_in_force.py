"""The policy in force changes in all workers at once: by a reload, by the kill switch, by a changed file."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.cli import main
from proxy.server.policy_file_watcher import signature
from tests.conftest import Fleet
from tests.resp import Wire, eventually
from tests.server.running import Running, refused, serve, ticks

POLICY = """
keyrail: 1
rules:
  walks: {{refuse: [KEYS], mode: {mode}}}
  lazy: {{replace: {{DEL: UNLINK}}, mode: {mode}}}
  flush: {{refuse: [FLUSHALL], locked: true}}
"""


@pytest.fixture(scope="module")
def upstream(fleet: Fleet) -> str:
    return fleet.engine("valkey-9.1", "server").url


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "policy.yaml").write_text(POLICY.format(mode="enforce"))
    return tmp_path / "policy.yaml"


@pytest.fixture
def running(upstream: str, file: Path) -> Iterator[Running]:
    with serve(
        *("--upstream", upstream, "--policy", str(file), "--workers", "2", "--watch", "off"),
        *("--state-dir", str(file.parent / "state")),
    ) as running:
        yield running.ready()


@pytest.fixture
def wires(running: Running) -> Iterator[list[Wire]]:
    """Enough clients for both workers to have some."""
    wires = [running.wire() for _ in range(12)]
    yield wires
    for wire in wires:
        wire.close()


def answers(wires: list[Wire]) -> set[bytes]:
    """How KEYS is answered now."""
    return {wire.ask("KEYS", "none-such")[:7] for wire in wires}


def test_what_is_sent_after_a_reload_is_judged_by_it(running: Running, wires: list[Wire], file: Path) -> None:
    for turn, (mode, expected) in enumerate([("audit", b"*0\r\n"), ("enforce", b"-DENIED")] * 3):
        file.write_text(POLICY.format(mode=mode))
        assert running.http("/policy/reload", {}) == (200, json.dumps({"generation": turn + 2}))
        assert answers(wires) == {expected}
    file.write_text("keyrail: 1\nrules: {oops: {forbid: [x]}}\n")
    status, body = running.http("/policy/reload", {})
    assert (status, json.loads(body)["generation"]) == (422, 7)
    assert any("policy.yaml:2: rules.oops" in problem for problem in json.loads(body)["problems"])
    assert answers(wires) == {b"-DENIED"}
    in_force = running.json("/policy")
    assert (in_force["generation"], in_force["reload_failures"]) == (7, 1)
    (route,) = in_force["routes"]
    assert route["files"] == [str(file)]
    assert [(rule["rule"], rule["mode"], rule["locked"]) for rule in route["rules"]] == [
        ("walks", "enforce", False),
        ("lazy", "enforce", False),
        ("flush", "enforce", True),
    ]
    assert {rule["at"].rpartition(":")[0] for rule in route["rules"]} == {str(file)}
    assert running.http("/nothing") == (404, '{"error": "Not Found"}')
    assert running.http("/policy/reload") == (405, '{"error": "Method Not Allowed"}')


def test_the_kill_switch(
    upstream: str, running: Running, wires: list[Wire], file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def turn(*arguments: str) -> str:
        assert main(["kill-switch", *arguments, "--admin", running.admin]) == 0
        return capsys.readouterr().out

    assert turn("status") == "off: the policy is enforced\n"
    said = turn("on", "--for", "5m", "--because", "INC-7: checkout is down")
    assert said.startswith("on until ")
    assert "(INC-7: checkout is down)" in said
    assert answers(wires) == {b"*0\r\n"}, "every worker at once"
    assert {wire.ask("FLUSHALL")[:7] for wire in wires} == {b"-DENIED"}, "locked rules hold"
    assert running.metric("keyrail_kill_switch") == 1
    assert running.http("/readyz")[1].startswith("ready\nthe kill switch is on until ")
    modes = {rule["rule"]: rule["mode"] for rule in running.json("/policy")["routes"][0]["rules"]}
    assert modes == {"walks": "audit", "lazy": "audit", "flush": "enforce"}
    assert running.stop() == 0

    with serve("--upstream", upstream, "--policy", str(file), "--state-dir", str(file.parent / "state")) as again:
        with again.ready().wire() as wire:
            assert wire.ask("KEYS", "none-such") == b"*0\r\n", "it survives a restart"
            assert json.loads(again.http("/policy/kill-switch", {"switch": "on", "for": "1s"})[1])["on"]
            again.await_metric("keyrail_kill_switch", 0)
            assert wire.ask("KEYS", "none-such").startswith(b"-DENIED"), "and it ends"
            eventually(lambda: json.loads((file.parent / "state/state.json").read_text()) == {"kill_switch": None})
            assert again.http("/readyz") == (200, "ready\n")
            assert json.loads(again.http("/policy/kill-switch", {"switch": "on"})[1])["on"]
            assert json.loads(again.http("/policy/kill-switch", {"switch": "off"})[1])["on"] is False
            assert wire.ask("KEYS", "none-such").startswith(b"-DENIED")
        for asked, expected in (
            ({"switch": "on", "for": "25h"}, "for: expected at most 24h"),
            ({"switch": "on", "for": "soon"}, "expected a time"),
            ({"switch": "maybe"}, "expected"),
            ({"switch": "on", "reason": "x"}, "unknown key 'reason'"),
        ):
            status, body = again.http("/policy/kill-switch", asked)
            assert status == 400
            assert expected in json.loads(body)["error"]


def test_a_state_file_that_is_none_ends_the_start(upstream: str, tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("{}")
    status, (line,) = refused(["--upstream", upstream, "--state-dir", str(tmp_path)])
    assert (status, line) == (
        1,
        f"keyrail: {tmp_path}/state.json is not a state file of Keyrail: repair it or remove it",
    )


def test_a_changed_file_is_taken_up(upstream: str, tmp_path: Path) -> None:
    """Kubernetes changes a mounted ConfigMap so: links to a folder that is itself a link, swapped in one step."""

    def publish(version: str, text: str) -> None:
        (tmp_path / version).mkdir()
        (tmp_path / version / "policy.yaml").write_text(text)
        (tmp_path / "new").symlink_to(version)
        (tmp_path / "new").replace(tmp_path / "..data")

    publish("first", POLICY.format(mode="audit"))
    (tmp_path / "policy.yaml").symlink_to("..data/policy.yaml")
    with serve("--upstream", upstream, "--policy", str(tmp_path / "policy.yaml")) as running:
        running.ready()
        publish("second", "keyrail: 1\nrules: {oops: {forbid: [x]}}\n")
        running.await_line(r"^keyrail: policies not reloaded: generation 1 stays$")
        publish("third", POLICY.format(mode="enforce"))
        running.await_line(r"^keyrail: policies reloaded: generation 2$")
        with running.wire() as wire:
            assert wire.ask("KEYS", "none-such").startswith(b"-DENIED")
        assert running.stderr.count("policies not reloaded") == 1


def test_what_counts_as_a_change(tmp_path: Path) -> None:
    for version in ("one", "two"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "policy.yaml").write_text("the same")
    (tmp_path / "link").symlink_to("one")
    file = tmp_path / "link" / "policy.yaml"
    seen = [signature([str(file)]), signature([str(file)])]
    assert seen[0] == seen[1]
    (tmp_path / "new").symlink_to("two")
    (tmp_path / "new").replace(tmp_path / "link")
    seen.append(signature([str(file)]))
    (tmp_path / "two" / "another.yaml").write_text("for an include")
    seen.append(signature([str(file)]))
    os.utime(file, ns=(1, 1))
    seen.append(signature([str(file)]))
    file.unlink()
    seen.append(signature([str(file)]))
    assert len(set(seen)) == 5


def test_a_port_without_a_token_says_so(upstream: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-long-enough-token")
    with serve("--upstream", upstream, "--admin", "0.0.0.0:0") as running:
        running.ready().await_line("not on loopback; without --admin-token-file")
        assert running.http("/hotkeys")[0] == running.http("/policy/reload", {})[0] == 403
        assert running.http("/metrics")[0] == 200
    status, (line,) = refused(["--upstream", upstream, "--admin-token-file", str(tmp_path / "none")])
    assert status == 2
    assert "cannot read the admin token" in line


def test_the_command_line_with_a_token(upstream: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "token").write_text("a-long-enough-token\n")
    file = str(tmp_path / "token")
    token = ["--token-file", file]
    with serve("--upstream", upstream, "--admin", "0.0.0.0:0", "--admin-token-file", file) as running:
        running.ready()
        assert main(["kill-switch", "on", "--admin", running.admin]) == 1
        assert "expected the admin token" in capsys.readouterr().err
        assert main(["kill-switch", "on", "--for", "5q", "--admin", running.admin, *token]) == 2
        assert capsys.readouterr().err.startswith(f"keyrail: {running.admin}: ")
        assert main(["kill-switch", "on", "--admin", running.admin, *token]) == 0
        assert "does not survive a restart" in capsys.readouterr().out
        for _ in ticks():
            if running.http("/readyz")[1].count("\n") == 2:
                break
        assert "the kill switch is on" in running.http("/readyz")[1]
    assert main(["kill-switch", "status", "--admin", "http://127.0.0.1:1"]) == 1
    assert main(["kill-switch", "status", "--admin", "ftp://x"]) == 2
