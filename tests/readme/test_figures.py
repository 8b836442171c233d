"""The figures in docs/benchmarks.md are those of the last run in `loadtest/results`, the missed goals with them."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.readme.blocks import DOCS, REPOSITORY, blocks_of

PAGE = DOCS / "benchmarks.md"
RESULTS = REPOSITORY / "loadtest" / "results"
WORKLOADS = [f"{verb}, P={pipeline}" for pipeline in (1, 16, 64) for verb in ("GET", "SET")]
TARGETS = {"direct": "Redis alone", "nutcracker": "twemproxy", "keyrail none": "Keyrail, `--policy none`"}
TARGETS["keyrail bench"] = "Keyrail, `bench.yaml`"

Rows = dict[str, list[str]]


def tables(name: str) -> dict[str, Rows]:
    """The tables of a page of results by their headings, and their rows by the first cell."""
    found: dict[str, Rows] = {"": {}}
    for line in (RESULTS / f"{name}-compiled.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            found[line[3:]] = {}
        elif line.startswith("| ") and not line.startswith("| |"):
            first, *others = (cell.strip() for cell in line.strip("|").split("|"))
            list(found.values())[-1][first] = others
    return found


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table as the page has it."""
    lines = [head, *rows]
    return (
        "\n".join("| " + " | ".join(line) + " |" for line in lines)
        .replace("|  |", "| |")
        .replace("\n", "\n|" + "---|" * len(head) + "\n", 1)
    )


def throughput() -> str:
    """The throughput, and the proxy's CPU time."""
    quick = tables("quick")

    def cell(target: str, workload: str) -> str:
        rate, _, _, proxy, *_ = (figure.partition(" ")[0] for figure in quick[workload][target])
        return rate if proxy == "–" else f"{rate} ({proxy})"

    rows = [[told, *(cell(target, workload) for workload in WORKLOADS)] for target, told in TARGETS.items()]
    return table(["commands/s (proxy CPU in µs per command)", *WORKLOADS], rows)


def missed() -> str:
    """The goals that were not met, with what Redis without a proxy reaches."""
    rows = [[what, goal, got, bare] for what, (goal, got, verdict, bare) in goals().items() if verdict == "MISSED"]
    return table(["missed", "goal", "measured", "Redis alone"], rows)


def goals(run: str = "quick") -> Rows:
    """All goals of the benchmark."""
    return tables(run)["Goals"]


def met(run: str) -> str:
    """How many of them are met."""
    return f"{sum(verdict == 'met' for _, _, verdict, _ in goals(run).values())} of {len(goals(run))}"


def costs() -> str:
    """The cost of rules, traffic statistics and connections."""

    def judged(what: str, figure: str, least: float) -> list[str]:
        return [what, figure, f"≥ {least:g}", "met" if float(figure.partition(" ")[0]) >= least else "MISSED"]

    rules, traces = tables("rules-strict"), tables("traces")[""]["GET, P=16"]
    rows = [
        judged(f"all rules of `strict.yaml`, {verb} P=16: throughput, of `--policy none`'s", all_rules[1], 0.8)
        for verb in ("GET", "SET")
        for all_rules in [rules[f"{verb}, P=16"]["all rules"]]
    ]
    rows.append(judged("traffic statistics, GET P=16: throughput, on against off", traces[0], 0.95))
    rows.append(["traffic statistics, GET P=16: proxy CPU, on against off", traces[1], "stated", ""])
    rows += [[what, *cells] for what, cells in tables("memory")[""].items()]
    return table(["", "measured", "goal", ""], rows)


def test_the_tables_of_figures_are_those_of_the_last_run() -> None:
    page = PAGE.read_text(encoding="utf-8")
    verdicts = f"{met('quick')} goals are met", f"{met('quick-together')}\nare met"
    for expected in (throughput(), *verdicts, missed(), costs()):
        assert expected in page, f"the page has to say:\n\n{expected}\n"


def test_every_page_of_results_is_linked() -> None:
    linked = re.findall(r"\]\(\.\./loadtest/results/([\w.-]+)\)", PAGE.read_text(encoding="utf-8"))
    assert sorted(linked) == sorted(file.name for file in RESULTS.glob("*-compiled.md"))


def test_every_load_test_is_named() -> None:
    command = [sys.executable, "-m", "loadtest", "--help"]
    usage = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    verbs = re.search(r"\{(.*?)\}", usage.stdout)
    assert verbs is not None
    named = re.findall(r"-m loadtest (\w+)", "".join(block.text for block in blocks_of("sh", PAGE)))
    assert sorted(set(named)) == sorted(verbs[1].split(","))
