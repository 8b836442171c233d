"""README's fenced blocks. `python -m tests.readme.blocks sh 2` prints the second `sh` block, for the shell to run."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, and the line of README on which it begins."""

    language: str
    text: str
    line: int


def blocks(text: str) -> list[Block]:
    """All fenced blocks, in order."""
    found = re.finditer(r"^```(\S*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(each[1], each[2], text.count("\n", 0, each.start()) + 2) for each in found]


def blocks_of(language: str) -> list[Block]:
    """README's blocks of one language."""
    return [block for block in blocks(README.read_text()) if block.language == language]


if __name__ == "__main__":
    print(blocks_of(sys.argv[1])[int(sys.argv[2]) - 1].text)
