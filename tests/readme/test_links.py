"""Each link of each page leads to an existing file, and each anchor to a heading in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.readme.blocks import PAGES, README, REPOSITORY

LINKING = tuple(dict.fromkeys((*PAGES, *sorted(REPOSITORY.glob("*.md")), *sorted(REPOSITORY.glob("*/README.md")))))
LINK = re.compile(r"\]\(([^)\s]+)\)")


def prose(text: str) -> str:
    """The text without its fenced blocks, in which # begins a comment and brackets are syntax."""
    return re.sub(r"^( *)```.*\n(?:.*\n)*?\1```$", "", text, flags=re.MULTILINE)


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    found: list[str] = []
    for heading in re.findall(r"^#+ (.*)$", prose(text), re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        found.append(f"{anchor}-{found.count(anchor)}" if anchor in found else anchor)
    return set(found)


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere. Addresses on the web are not asked."""
    wrong = []
    for link in LINK.findall(prose(page.read_text("utf-8"))):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text("utf-8"))):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_every_page_is_reached_from_readme() -> None:
    linked = {(README.parent / link.partition("#")[0]).resolve() for link in LINK.findall(README.read_text("utf-8"))}
    assert set(PAGES) - linked <= {README}


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page, other = tmp_path / "page.md", tmp_path / "other.md"
    other.write_text("# One `thing`, twice\n\n```sh\n# no heading\n```\n\n## One thing, twice\n")
    page.write_text(
        "[a](other.md#one-thing-twice) [b](other.md#one-thing-twice-1) [c](other.md#no-heading) [d](gone.md) [e](#x)"
    )
    assert broken(page) == ["other.md#no-heading", "gone.md", "#x"]
