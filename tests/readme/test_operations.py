"""docs/operations.md: each line of "What happens when …" names a test that is there; options and figures are real."""

from __future__ import annotations

import ast
import re

from loadtest import published
from loadtest.targets import KEYRAIL_BENCH
from proxy.server.options import OPTIONS
from tests.readme.blocks import DOCS, REPOSITORY

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
