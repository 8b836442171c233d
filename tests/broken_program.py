"""Keyrail with something broken on purpose: a copy of the program, as plain Python, with some of its text changed.

What is changed is found by its text, so a change of the program can make it stale. ``stale`` tells in no time, and a
test of the default run asks it for every break: the broken programs themselves mostly run in ``.ci/night`` alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.keyrail_process import package_folder


class Change(NamedTuple):
    """The module, below the package; what it says, once; and what it says instead."""

    module: str
    right: str
    wrong: str


def stale(changes: Iterable[Change]) -> list[str]:
    """The changes whose text does not stand exactly once in its module, as lines for a reader."""
    package = package_folder()
    found = [(each, (package / each.module).read_text().count(each.right)) for each in changes]
    return [f"{each.module} says {times} times: {each.right}" for each, times in found if times != 1]


def broken(folder: Path, *changes: Change) -> Path:
    """A copy of the package in this folder, with these changes."""
    assert not stale(changes)
    package = folder / "proxy"
    shutil.copytree(package_folder(), package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for module, right, wrong in changes:
        path = package / module
        path.write_text(path.read_text().replace(right, wrong))
    return package
