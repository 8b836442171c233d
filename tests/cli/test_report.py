"""`keyrail report` as text, Markdown and HTML: complete, and harmless whatever names clients and keys have."""

from __future__ import annotations

import errno
import json
import os
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from proxy.cli import main
from proxy.cli.admin_port import AdminPort
from proxy.cli.report_html import html
from proxy.cli.report_text import markdown, text
from proxy.server.evidence.json_form import json_pieces
from proxy.server.evidence.model import Evidence
from proxy.server.evidence.store import SqliteStore
from proxy.traffic.key_text import printable
from tests.cli.made_report import POLICY, made_batch, made_report

HOSTILE = (
    "<script>pwned=1</script>",
    "</script></style></code>",
    "\"><img src=x onerror='pwned=1'>",
    "' onmouseover=pwned=1 x='",
    "{{ report }}{% raw %}",
    "&lt;b&gt;&amp;",
    "\x1b[2J\x1b]0;pwned\x07\x9b31m",
    "a\u202eb\u2066c\u200fd\u00a0",
    "line\nbreak\r\n# heading\n\n```",
    "a`b``c",
    "` @everyone #1 https://evil.example [x](javascript:pwned)",
    "|cell|*bold*_it_~~x~~",
    "שלום",
    "a\0b\udcff",
    "",
    " ",
    "\\",
)
LETTERS = "<>&\"'`\\{}%#[]()!*_~|@:/ \n\x1b\u202e\udcffaZ"
NAMES = st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(LETTERS, max_size=8)), min_size=1, max_size=7)


def plain(names: list[str]) -> list[str]:
    """Harmless names, equal where these are: what is equal is one row, and what has no name is left out."""
    return [f"n{names.index(name)}" if name else "" for name in names]


class Skeleton(HTMLParser):
    """The tags of a page with the names of their attributes, and its texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, ...]] = []
        self.texts: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, *(name for name, _ in attrs)))
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.links += [value for name, value in attrs if name in ("href", "src") and value]

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(("/" + tag,))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@given(NAMES)
@example(list(HOSTILE))
@settings(max_examples=20, deadline=None)
def test_no_name_changes_what_the_html_consists_of(names: list[str]) -> None:
    page = html(made_report(*names))
    found = Skeleton(page)
    assert found.tags == Skeleton(html(made_report(*plain(names)))).tags
    if len(names) == 1 and names[0]:
        assert printable(names[0]) in found.texts
    assert all(line.isprintable() for line in page.splitlines())
    page.encode()


def test_the_html_loads_nothing_and_its_links_lead_to_what_is_there() -> None:
    page = html(made_report(*HOSTILE))
    found = Skeleton(page)
    assert {tag for tag, *_ in found.tags} & {"script", "img", "link", "iframe", "object", "form", "base"} == set()
    assert "url(" not in page
    assert "@import" not in page
    assert len(set(found.ids)) == len(found.ids)
    assert found.links
    assert {link.removeprefix("#") for link in found.links} <= set(found.ids)
    assert {"team/checkout", "team/data", "checkout/basket/default/key-names/refused"} <= set(found.ids)


def outside_code(text: str) -> tuple[str, list[str]]:
    """Markdown with a mark for each code span, and their contents (https://spec.commonmark.org/0.31.2/#code-spans)."""
    spans: list[str] = []

    def span(found: re.Match[str]) -> str:
        spans.append(found[2])
        return "CODE"

    return re.sub(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)", span, text), spans


@given(NAMES)
@example(list(HOSTILE))
@settings(max_examples=20, deadline=None)
def test_in_markdown_all_names_are_code(names: list[str]) -> None:
    lines, harmless = (markdown(made_report(*its)).split("\n") for its in (names, plain(names)))
    assert [outside_code(line)[0] for line in lines] == [outside_code(line)[0] for line in harmless]
    assert all(line.isprintable() for line in lines)
    if len(names) == 1 and names[0]:
        assert printable(names[0]).strip() in {each.strip() for line in lines for each in outside_code(line)[1]}


@given(NAMES)
@example(list(HOSTILE))
@settings(max_examples=20, deadline=None)
def test_text_is_as_many_lines_whatever_the_names_and_none_moves_the_cursor(names: list[str]) -> None:
    lines = text(made_report(*names)).split("\n")
    assert len(lines) == len(text(made_report(*plain(names))).split("\n"))
    assert all(line.isprintable() for line in lines)


def test_each_form_has_all_that_a_team_needs() -> None:
    made = made_report("worker")
    page = " ".join(" ".join(Skeleton(html(made)).texts).split())
    for said in (
        "15 of 3,000 commands (0.500%) would be refused",
        "15 of 3,000 commands (0.500%) would be rewritten ; no client notices".replace(" ;", ";"),
        "15 of 3,000 commands (0.500%) refused",
        "keys have an owner",
        "name it team:entity:id",
        "#checkout",
        "until 2027-01-15, then warn, because OPS-1",
        "SET worker '<59 bytes>'",
        "3 of them are counted, but not told apart.",
        "payments : nothing of 3,000 commands would be refused.",
        "no command that it is about was seen, so this proves nothing",
        "Exceptions that end within 14 days",
        "no Keyrail watched",
        "7 not recorded: rows that found no room",
    ):
        assert said in page, said
    checkout = page[page.index("What would be refused") :]
    assert checkout.index("key-names") < checkout.index("lifetimes"), "what is refused comes first"
    for form in (text, markdown):
        assert "15 of 3,000 (0.500%) would be refused" in form(made)


def test_what_has_happened_is_never_zero_percent() -> None:
    made = made_report("worker")
    finding = made["teams"][0]["apps"][0]["findings"][0]
    finding |= {"count": 1, "out_of": 3_000_000, "share": 1 / 3_000_000}
    assert "1 of 3,000,000 (below 0.001%)" in text(made)
    assert "1 of 3,000,000 commands (below 0.001%)" in " ".join("".join(Skeleton(html(made)).texts).split())


def test_a_report_of_nothing_says_so(tmp_path: Path) -> None:
    empty: dict[str, Any] = {
        "since": None,
        "until": None,
        "watched_seconds": 0,
        "gaps": [],
        "lost": {},
        "commands": 0,
        "teams": [],
        "silent": [],
        "unused_exceptions": [],
        "ending_exceptions": [],
        "quotas": [],
    }
    assert "nothing was seen yet" in html(empty)
    assert "Nothing was recorded." in html(empty)


def test_quotas_stand_in_the_text(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    owner = {"keys": 1200, "bytes": 5000, "gone_at_most": 30, "over": True}
    quota = {"route": "default", "rule": "storage", "keys": 1000, "bytes": None, "scan": "2026-11-29T03:00:00Z"}
    quota |= {"missing": "", "judges": True, "owners": {"shop": owner, "web": owner | {"keys": 7, "over": False}}}
    none = quota | {"rule": "other", "scan": None, "missing": "no scan is kept", "judges": False, "owners": {}}

    evidence: dict[str, Any] = json.loads("".join(json_pieces(Evidence(), {})))

    def get(_: AdminPort, path: str, **__: object) -> dict[str, Any]:
        return {"quotas": [quota, none]} if path == "/report" else evidence

    monkeypatch.setattr(AdminPort, "get", get)
    assert main(["report"]) == 0
    assert capsys.readouterr().out.split("\n\n")[1].splitlines() == [
        "quotas",
        "      storage (default): at most 1,000 keys of each app; judges by the scan of 2026-11-29T03:00:00Z",
        "      shop has 1,200 keys of 5,000 bytes, which is too much; 30 of these keys may be gone",
        "      web has 7 keys of 5,000 bytes; 30 of these keys may be gone",
        "      other (default): at most 1,000 keys of each app; refuses nothing: no scan is kept",
    ]
    assert main(["report", "--md", "--admin", "http://a:1,http://b:1"]) == 0
    assert capsys.readouterr().out.count("storage (default, http://") == 2


# The file


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments of a report of a state folder; the working directory is a folder of its own."""
    (tmp_path / "policy.yaml").write_text(f"keyrail: 1\n{POLICY}")
    store = SqliteStore(tmp_path / "evidence.sqlite", 1 << 26, 30)
    store.add(made_batch(*HOSTILE, now=time.time()))
    store.close()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return ["report", "--state-dir", str(tmp_path), "--policy", str(tmp_path / "policy.yaml")]


def test_the_file_is_written_and_replaced(report: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    file = Path("report.html")
    old_mask = os.umask(0o027)
    try:
        for _ in range(2):
            assert main([*report, "--html", str(file)]) == 0
            assert capsys.readouterr().out == "report.html: teams: 2; commands that would be refused: 30\n"
    finally:
        os.umask(old_mask)
    assert file.read_text("utf-8").endswith("</html>")
    assert file.stat().st_mode & 0o777 == 0o640
    assert list(Path().iterdir()) == [file]


@pytest.mark.parametrize("failing", ["write", "rename"])
def test_a_file_is_never_half_written(
    report: list[str], failing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file = Path("report.html")
    file.write_text("the old one")
    if failing == "write":
        monkeypatch.setattr(os, "fsync", full)
    else:
        monkeypatch.setattr(Path, "replace", full)
    assert main([*report, "--html", str(file)]) == 1
    assert capsys.readouterr().err == "keyrail: cannot write report.html: No space left on device\n"
    assert file.read_text() == "the old one"
    assert list(Path().iterdir()) == [file]


def test_what_cannot_be_a_file_is_named(report: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("folder").mkdir()
    os.mkfifo("pipe")
    Path("circle").symlink_to("circle")
    for name, reason in (
        ("folder", "it is no regular file"),
        ("pipe", "it is no regular file"),
        ("/dev/null", "it is no regular file"),
        ("nowhere/report.html", "No such file or directory"),
        ("circle", "Symlink loop"),
    ):
        assert main([*report, "--html", name]) == 1
        assert f"keyrail: cannot write {name}: {reason}" in capsys.readouterr().err
    assert Path("pipe").is_fifo()


def test_a_link_stays_a_link(report: list[str]) -> None:
    Path("link.html").symlink_to("real.html")
    assert main([*report, "--html", "link.html"]) == 0
    assert Path("link.html").is_symlink()
    assert Path("real.html").read_text("utf-8").endswith("</html>")


def test_one_form_at_a_time(report: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*report, "--html", "report.html", "--json"])
    assert "not allowed with" in capsys.readouterr().err
    assert main([*report, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["teams"][0]["refused"] == 15
