"""`keyrail learn` prints a policy that `keyrail check` takes, and its exit status says whether there was evidence."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.cli import main
from proxy.cli.evidence_source import SourceError
from proxy.server.evidence.model import Evidence
from tests.server.learnable_traffic import traffic_of


def given(evidence: Evidence, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.cli.learn.evidence_of", lambda _: evidence)


def test_what_it_prints_passes_the_check(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given(traffic_of("SET cart:1 v EX 60", "GET cart:1", user="web").evidence(), monkeypatch)
    assert main(["learn", "--detail"]) == 0
    file = tmp_path / "learnt.yaml"
    file.write_text(capsys.readouterr().out, "utf-8")
    assert main(["check", str(file)]) == 0
    assert "0 failed" in capsys.readouterr().out


def test_without_evidence_it_prints_no_policy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given(traffic_of("GET cart:1").evidence(), monkeypatch)
    assert main(["learn", "--app", "shop"]) == 1
    told = capsys.readouterr()
    assert (told.out, told.err) == (
        "",
        "keyrail: there is no evidence of commands of app shop: nothing to learn from\n",
    )


def test_evidence_that_cannot_be_read_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> Evidence:
        raise SourceError("no Keyrail there", 1)

    monkeypatch.setattr("proxy.cli.learn.evidence_of", fail)
    assert main(["learn"]) == 1
    assert capsys.readouterr().err == "keyrail: no Keyrail there\n"


def test_a_mistake_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["learn", "--since", "yesterday"])
    assert ended.value.code == 2
    assert "keyrail learn --help" in capsys.readouterr().err
