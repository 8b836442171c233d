"""Each suppressed check of a linter or a type checker says why."""

import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import proxy

PROJECT = Path(__file__).parents[2]
PACKAGE = Path(proxy.__file__).parent

SUPPRESSION = re.compile(r"#\s*(?:noqa\b|type:\s*ignore\b|pragma:|mypy:|ruff:)")
REASON = re.compile(r"#\s*(?:noqa: \w+(?:, \w+)*|type: ignore\[[\w, -]+\]) [-# ]*\S+ \S+")


def comments() -> Iterator[tuple[str, str]]:
    """Every comment of the project's Python, with its place."""
    folders = (PACKAGE, PROJECT / "tests", PROJECT / "loadtest", PROJECT / ".packaging")
    for file in (file for folder in folders for file in sorted(folder.rglob("*.py"))):
        with file.open("rb") as source:
            for token in tokenize.tokenize(source.readline):
                if token.type == tokenize.COMMENT:
                    yield f"{file}:{token.start[0]}", token.string


@pytest.mark.source
def test_each_suppressed_check_has_a_reason() -> None:
    suppressions = [(place, text) for place, text in comments() if SUPPRESSION.match(text)]
    assert len(suppressions) > 10
    assert [f"{place}: {text}" for place, text in suppressions if not REASON.match(text)] == []


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("# noqa: BLE001  any error", True),
        ("# noqa: B017, PT011 - it may fail in any way", True),
        ("# type: ignore[misc, name-defined]  # whichever module", True),
        ("# noqa: BLE001", False),
        ("# noqa", False),
        ("# type: ignore[arg-type]", False),
        ("# ruff: noqa", False),
    ],
)
def test_a_reason_is_recognised(text: str, given: bool) -> None:
    assert SUPPRESSION.match(text)
    assert bool(REASON.match(text)) is given
