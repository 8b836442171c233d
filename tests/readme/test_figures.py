"""The figures in the documentation are those of the last runs in `loadtest/results`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from loadtest import published
from loadtest.chart import Bar, Panel, svg
from tests.readme.blocks import REPOSITORY, blocks_of

AGAIN = "run `python -m loadtest publish`"


@pytest.mark.parametrize(
    ("page", "places"), list(zip(published.PAGES, (1, 6), strict=True)), ids=["README", "benchmarks"]
)
def test_the_page_has_the_figures_of_the_last_run(page: Path, places: int) -> None:
    text = page.read_text("utf-8")
    assert len(re.findall("<!-- end -->", text)) == places
    assert text == published.page(text), AGAIN


def test_the_chart_has_the_figures_of_the_last_run() -> None:
    assert published.CHART.read_text("utf-8") == published.drawn(), AGAIN


def test_a_figure_that_is_typed_is_found() -> None:
    text = published.PAGE.read_text("utf-8")
    (rate,) = re.findall(r"^\| Redis alone \| ([\d,]+)", text, re.MULTILINE)
    assert published.page(text.replace(rate, "99,999")) == text
    with pytest.raises(KeyError, match="unknown"):
        published.page("<!-- unknown -->\n\n<!-- end -->")


def test_a_bar_is_as_long_as_its_figure() -> None:
    drawn = svg([Panel("GET", [Bar("one", proxy=1.0, redis=3.0, rate=1000.0), Bar("two", 0.0, 2.0, 2000.0)])])
    bars = re.findall(r'class="(proxy|redis)" x="[\d.]+" y="[^4]\d*" width="([\d.]+)"', drawn)
    assert [(kind, float(width)) for kind, width in bars] == [
        ("proxy", 31.2),
        ("redis", 93.8),
        ("proxy", 0.0),
        ("redis", 62.5),
    ]
    assert ">1.00 + 3.00 µs, 1k/s<" in drawn


def test_every_page_of_results_is_linked() -> None:
    linked = re.findall(r"\]\(\.\./loadtest/results/([\w.-]+)\)", published.PAGE.read_text("utf-8"))
    assert sorted(linked) == sorted(file.name for file in published.RESULTS.glob("*-compiled.md"))


def test_every_load_test_is_named() -> None:
    command = [sys.executable, "-m", "loadtest", "--help"]
    usage = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    verbs = re.search(r"\{(.*?)\}", usage.stdout)
    assert verbs is not None
    named = re.findall(r"-m loadtest ([\w-]+)", "".join(block.text for block in blocks_of("sh", published.PAGE)))
    assert sorted(set(named)) == sorted(verbs[1].split(","))
