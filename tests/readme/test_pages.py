"""README is short, and each page begins with its answer."""

import re
from pathlib import Path

import pytest

from tests.readme.blocks import DOCS, README, REPOSITORY

LONGEST = 200
ANSWER = re.compile(r"# [^\n]+\n\n(?:<!-- \w+ -->\n)?\*\*[^*]+[.:]\*\*")
"""A title, and a bold sentence behind it; figures have a comment with their name before them."""


def test_readme_is_an_entrance() -> None:
    assert len(README.read_text("utf-8").splitlines()) < LONGEST, "the rest is for docs/"


@pytest.mark.parametrize(
    "page", [*sorted(DOCS.glob("*.md")), REPOSITORY / "policies/README.md"], ids=lambda page: page.stem
)
def test_each_page_begins_with_its_answer(page: Path) -> None:
    assert ANSWER.match(page.read_text("utf-8")), "expected a title, and then the answer in bold"


OF_FILES = "where-to-change"
"""A table of files for who changes Keyrail: there is nothing to type."""


@pytest.mark.parametrize(
    "page", [page for page in sorted(DOCS.glob("*.md")) if page.stem != OF_FILES], ids=lambda page: page.stem
)
def test_each_page_has_a_command_to_type(page: Path) -> None:
    """Those of `console` blocks run in `test_commands`, and show what the page says."""
    assert re.search(r"^```(console|sh)$", page.read_text("utf-8"), re.MULTILINE)
