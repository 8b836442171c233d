"""`keyrail scan --html`: one file that loads nothing, and is harmless whatever names keys have."""

from __future__ import annotations

from pathlib import Path

from hypothesis import example, given, settings

from proxy.cli import main
from proxy.cli.scan_html import html
from proxy.traffic.key_text import printable
from tests.cli.made_scan import made_scan
from tests.cli.test_report import HOSTILE, NAMES, Skeleton, plain
from tests.cli.test_scan import POLICY, carts
from tests.server.stored.served import served


@given(NAMES)
@example(list(HOSTILE))
@settings(max_examples=20, deadline=None)
def test_no_name_changes_what_the_html_consists_of(names: list[str]) -> None:
    page = html(made_scan(*names), {names[0]: names[-1]})
    found = Skeleton(page)
    harmless = plain(names)
    assert found.tags == Skeleton(html(made_scan(*harmless), {harmless[0]: harmless[-1]})).tags
    if len(names) == 1 and names[0]:
        assert printable(names[0]) in found.texts
    assert all(line.isprintable() for line in page.splitlines())
    page.encode()
    assert {tag for tag, *_ in found.tags} & {"script", "img", "link", "iframe", "object", "form", "base"} == set()


def test_it_has_all_that_was_found() -> None:
    shown = " ".join(" ".join(Skeleton(html(made_scan("a"), {"a": "#team"})).texts).split())
    for said in (
        "What is stored",
        "a part: the scan did not come to its end",
        "a a #team 3,000 30 9 2.9 MiB",
        "none 30",
        "up to 1 h 3",
        "longer 7",
        "30 no-ttl: a of a",
        "they may have it: their members are not counted",
        "1 of them are under an exception",
        "a a a – 976.6 KiB",
        "The heaviest of 2 slots with keys",
        "a: its walk started over 1 times",
    ):
        assert said in shown, said


def test_the_verb_writes_the_file(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    file = tmp_path / "scan.html"
    with served(carts(20)) as one:
        one.server.held[0][b"<script>pwned=1</script>"] = one.server.held[0].pop(b"cart:7")
        arguments = ["scan", "--upstream", one.url, "--policy", str(tmp_path / "policy.yaml"), "--share", "100%"]
        assert main([*arguments, "--html", str(file)]) == 0
        assert main([*arguments, "--html", str(tmp_path)]) == 1
    page = file.read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;pwned=1" in page
