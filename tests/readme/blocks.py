"""The pages of documentation and their fenced blocks.

`python -m tests.readme.blocks sh 2` prints README's second `sh` block, for the shell to run.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
README = REPOSITORY / "README.md"
DOCS = REPOSITORY / "docs"
PAGES = (README, *sorted(DOCS.glob("*.md")))
"""What users read; the commands on these pages are run."""


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, and the line of the page on which it begins."""

    language: str
    text: str
    line: int


def blocks(text: str) -> list[Block]:
    """All fenced blocks, in order, those in lists too. The language is all that follows the fence."""
    found = re.finditer(r"^( *)```(.*)\n((?:.*\n)*?)\1```$", text, re.MULTILINE)
    return [
        Block(each[2], re.sub(rf"^{each[1]}", "", each[3], flags=re.MULTILINE), text.count("\n", 0, each.start()) + 2)
        for each in found
    ]


def blocks_of(language: str, page: Path = README) -> list[Block]:
    """A page's blocks of one language."""
    return [block for block in blocks(page.read_text("utf-8")) if block.language == language]


if __name__ == "__main__":
    print(blocks_of(sys.argv[1])[int(sys.argv[2]) - 1].text)
