"""docs/operations.md: each line of "What happens when …" names an existing test; options and figures are real."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

import pytest

from loadtest import published
from loadtest.targets import KEYRAIL_BENCH
from proxy.server.options import OPTIONS
from tests.engines import Engine
from tests.readme.blocks import DOCS, REPOSITORY
from tests.server.running import serve

TEXT = (DOCS / "operations.md").read_text("utf-8")
LINE = re.compile(r"^\| [^|]+ \| [^|]+ \| (?P<tests>`[\w/]+\.py::\w+`(, `[\w/]+\.py::\w+`)*) \|$", re.MULTILINE)
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def test_each_sentence_has_a_test() -> None:
    table = TEXT.partition("| when … |")[2].partition("\n## ")[0].splitlines()[2:]
    rows = [row for row in table if row.startswith("|")]
    found = list(LINE.finditer("\n".join(rows)))
    assert len(found) == len(rows) > 20
    for file, test in (named for row in found for named in NAMED.findall(row["tests"])):
        tree = ast.parse((REPOSITORY / "tests" / file).read_text())
        assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, (file, test)


def test_its_options_are_there() -> None:
    known = {option.flag for option in OPTIONS} | {"--upstream", "--policy", "--kill-who"}
    assert set(re.findall(r"--[a-z][a-z-]+", TEXT)) <= known


def test_its_figures_are_those_of_the_last_run() -> None:
    quick, memory = published.tables("quick"), list(published.tables("memory")[""].values())
    single, piped = (published.figure(quick[f"GET, P={pipeline}"][KEYRAIL_BENCH][0]) for pipeline in (1, 16))
    plain, tls, there, back = (published.figure(cells[0]) for cells in memory)
    assert f"serves {round(single, -4):,.0f} single commands/s, or {round(piped, -5):,.0f} in pipelines of 16" in TEXT
    assert f"| {plain / 1000:.1f} KB per connection, {tls / 1000:.0f} KB with TLS |" in TEXT
    assert f"adds {there:.0f} MB on its way to Redis, {back:.0f} MB on its way back" in TEXT


def test_its_memory_is_that_of_the_last_soak() -> None:
    (page,) = published.RESULTS.glob("soak-*.md")
    found = re.search(r"from (\d+) to (\d+) MB in (\d+) minutes of ([\d,]+) commands/s on a million keys", TEXT)
    assert found is not None
    assert f"[soak](../loadtest/results/{page.name})" in TEXT
    text = page.read_text("utf-8")
    rows = re.findall(r"^\| ([\d.]+) min \| ([\d.]+), ", text, re.MULTILINE)
    grown = re.search(r"^\| memory of the supervisor \| ([\d.]+) → ([\d.]+) MB", text, re.MULTILINE)
    assert grown is not None
    told = [int(each.replace(",", "")) for each in found.groups()]
    assert told[:3] == [round(float(grown[1])), round(float(grown[2])), round(float(rows[-1][0]))]
    assert f"- load: {told[3]} commands a second" in text
    assert "does not hold" not in text


def test_its_memory_at_the_start_is_what_it_takes(new_engine: Callable[..., Engine]) -> None:
    """Compiled and plain processes differ by a tenth; forked ones share most of theirs."""
    found = re.search(r"\| (\d+) MB for the supervisor and (\d+) MB for each worker with `strict.yaml`", TEXT)
    assert found is not None
    with serve("--upstream", new_engine().url, "--policy", "strict", "--workers", "2", forked=False) as running:
        running.ready()
        supervisor, worker = (
            running.metric(name) / 1e6
            for name in ("keyrail_supervisor_memory_bytes", 'keyrail_worker_memory_bytes{worker="0"}')
        )
    assert supervisor == pytest.approx(int(found[1]), rel=0.2)
    assert worker == pytest.approx(int(found[2]), rel=0.2)
