"""`keyrail diff`: what it prints of names that others chose, and its exit status."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from proxy.cli import diff, main
from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.server.evidence.model import Evidence
from proxy.traffic.evidence_rows import Identity
from tests.server.test_evidence_diff import recorded

OLD = "keyrail: 1\nrules: {}\n"
NEW = (
    "keyrail: 1\ndefaults: {mode: enforce}\napps: {shop: {team: team-shop, contact: '#shop', match: {user: shop}}}\n"
    "rules: {walks: {refuse: [KEYS], instead: use SCAN}, small: {sizes: {value: 10B}, mode: audit}, "
    "ttl: {lifetime: {default: 5m}}}\n"
)
WEB = Identity("shop", "shop", "web")
NASTY = "a|`b`\\|<script>alert(1)</script>\x1b[31m\n| x | @team ![p](http://e)"


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    paths = tmp_path / "old.yaml", tmp_path / "new.yaml"
    for path, text in zip(paths, (OLD, NEW), strict=True):
        path.write_text(text)
    return str(paths[0]), str(paths[1])


def give(monkeypatch: pytest.MonkeyPatch, *argvs: list[bytes], who: Identity = WEB) -> None:
    evidence = recorded([(who, Command(STANDARD, argv)) for argv in argvs]) if argvs else Evidence()
    monkeypatch.setattr(diff, "evidence_of", lambda _options: evidence)


WALK, WRITE = [b"KEYS", b"user:*"], [b"SET", b"cart:1", b"a value of 20 bytes."]


def test_text(files: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    give(monkeypatch, WALK, WALK, WRITE, [b"GET", b"cart:1"])
    assert main(["diff", *files]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("3 changes for 4 judged commands, of 4 recorded\n\nnewly refused\n")
    assert "  shop (team team-shop, #shop): walks (enforce)\n    2 of 4 (50.000%); before: passed\n" in shown
    assert "DENIED keyrail/walks: KEYS is refused by this policy; use SCAN" in shown
    assert "    by user shop web 2\n    on KEYS 2\n    such as KEYS '<6 bytes>'\n" in shown
    assert "small (audit)" in shown
    assert "newly rewritten (harmless: clients notice nothing)\n  shop (team team-shop, #shop): ttl (enforce)" in shown


@pytest.mark.parametrize(
    ("sent", "fail_on", "status"),
    [
        ([WALK], "newly-refused", 1),
        ([WRITE], "newly-refused", 0),  # only audited
        ([WRITE], "newly-refused,newly-rewritten", 1),
        ([[b"GET", b"k"]], "newly-refused,newly-rewritten", 0),
        ([], "newly-refused", 1),
    ],
)
def test_what_fails(
    files: tuple[str, str], monkeypatch: pytest.MonkeyPatch, sent: list[list[bytes]], fail_on: str, status: int
) -> None:
    give(monkeypatch, *sent)
    assert main(["diff", *files, "--fail-on", fail_on]) == status
    assert main(["diff", *files]) == 0


def test_no_evidence_is_no_proof(
    files: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give(monkeypatch)
    main(["diff", *files, "--fail-on", "newly-refused"])
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (
        "no command is recorded: nothing is known\n",
        "keyrail: --fail-on: no command is recorded, so nothing is known\n",
    )


def test_a_mistake_in_a_policy_has_its_place(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    Path(files[1]).write_text("keyrail: 1\nrules:\n  walks: {refuse: [KEYSES]}\n  x: {nothing: 1}\n")
    assert main(["diff", *files]) == 2
    assert re.match(r".*new\.yaml:\d+: ", capsys.readouterr().err)


@pytest.mark.parametrize("wrong", [["--fail-on", "newly"], ["--json", "--md"], ["--since", "yesterday"]])
def test_a_mistake_in_the_command_line(files: tuple[str, str], wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["diff", *files, *wrong])
    assert ended.value.code == 2


@pytest.mark.parametrize("route", ["default", "other"])
def test_one_route_or_app(
    files: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], route: str
) -> None:
    def changes(*options: str) -> int:
        give(monkeypatch, WALK)
        main(["diff", *files, "--json", *options])
        return len(json.loads(capsys.readouterr().out)["changes"])

    assert changes("--route", route) == (route == "default")
    assert changes("--app", "shop") == 1
    assert changes("--app", "jobs") == 0


def cells(line: str) -> list[str]:
    """The cells of a row of a table, as GitHub splits them: at bars that no backslash escapes."""
    found, cell, escaped = [], "", False
    for char in line:
        if char == "|" and not escaped:
            found.append(cell)
            cell = ""
        else:
            cell += char
        escaped = char == "\\" and not escaped
    return found[1:]


@pytest.mark.parametrize("name", [NASTY, "`", "``", "\\", "|", "\\|", "a\\\\|b", "`|`", "|\\", " ", "\u202e\u2028x"])
def test_names_have_no_effect(
    files: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    def shown(*options: str) -> str:
        give(monkeypatch, [b"SET", name.encode(), b"x" * 20], who=Identity("shop", name, name, name, name))
        main(["diff", *files, *options])
        return capsys.readouterr().out

    for text in (shown(), shown("--md")):
        assert all(char.isprintable() for line in text.split("\n") for char in line)
    rows = [line for line in shown("--md").split("\n") if line.startswith("| `shop")]
    assert [len(cells(row)) for row in rows] == [8, 8]
    for cell in (cell for row in rows for cell in cells(row)):
        outside = re.sub(r"(`+) ?.*? ?\1(?!`)", "", cell).replace("<br>", "")
        assert not re.search(r"(?<!\\)[<`]|(?<!\\)!\[", outside), cell
    found: dict[str, Any] = json.loads(shown("--json"))
    assert found["changes"][0]["clients"][0]["user"] == name
