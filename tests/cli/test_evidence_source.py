"""Evidence of several Keyrails is added up, each once; what cannot be added is said, and nothing is left out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.cli import main
from proxy.cli.admin_port import AdminPort, AdminPortError
from proxy.server.evidence.json_form import json_pieces
from proxy.server.evidence.model import Evidence
from tests.cli.made_report import made_batch, made_facts


@pytest.fixture(autouse=True)
def keyrails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that have seen the same, one that is dead, and others that answer something else."""
    batch = made_batch("worker")
    evidence = Evidence([(batch.began, batch.now)], {(hour, route): rows for hour, route, rows in batch.rows})
    good: dict[str, Any] = json.loads("".join(json_pieces(evidence, {"default": made_facts()})))
    answers = {
        "http://one": good,
        "http://two": good,
        "http://older": {**good, "facts": 7},
        "http://silent": {name: its for name, its in good.items() if name != "facts"},
        "http://other": {"status": "ok"},
    }

    def get(port: AdminPort, _: str, **__: object) -> dict[str, Any]:
        if port.url not in answers:
            raise AdminPortError(f"{port.url}: Connection refused")
        return answers[port.url]

    monkeypatch.setattr(AdminPort, "get", get)


@pytest.mark.parametrize(
    ("urls", "commands"),
    [
        ("http://one", 9_000),
        ("http://one,http://two", 18_000),
        ("http://one,http://one/, http://one", 9_000),
        ("http://one, http://two/", 18_000),
    ],
)
def test_each_keyrail_counts_once(urls: str, commands: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--admin", urls, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["commands"] == commands


@pytest.mark.parametrize("verb", [["report"], ["ready", "key-names"], ["learn"]])
@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://dead", "keyrail: http://dead: Connection refused\n"),
        ("http://older", "keyrail: http://older: its facts about policies are not those of this version\n"),
        ("http://silent", "keyrail: http://silent: its facts about policies are not those of this version\n"),
        ("http://other", "keyrail: http://other: this is no evidence of Keyrail: KeyError: 'spans'\n"),
    ],
)
def test_one_that_cannot_be_added_is_an_error(
    verb: list[str], url: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*verb, "--admin", f"http://one,{url}"]) == 1
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize(
    ("option", "name", "said"),
    [
        ("--app", "baskets", "no policy has an app baskets; did you mean basket?"),
        ("--team", "check-out", "no policy has a team check-out; did you mean checkout?"),
        ("--rule", "key-name", "no policy has a rule key-name; did you mean key-names?"),
        ("--rule", "x\u202ey", r"no policy has a rule x\xe2\x80\xaey"),
    ],
)
def test_a_report_about_nobody_is_a_mistake(
    option: str, name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--admin", "http://one", option, name]) == 2
    assert capsys.readouterr() == ("", f"keyrail: {said}\n")
