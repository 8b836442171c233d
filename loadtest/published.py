"""Writes the figures in the documentation, from the pages in `loadtest/results`.

README and `docs/benchmarks.md` hold each text between a comment with its name and `<!-- end -->`. `python -m loadtest
publish` fills these places, and draws the chart.
"""

from __future__ import annotations

import re
from pathlib import Path

from loadtest import chart
from loadtest.targets import DIRECT, KEYRAIL_BENCH, KEYRAIL_NONE, NUTCRACKER, REPOSITORY

RESULTS = REPOSITORY / "loadtest" / "results"
PAGE = REPOSITORY / "docs" / "benchmarks.md"
PAGES = (REPOSITORY / "README.md", PAGE)
CHART = REPOSITORY / "docs" / "images" / "cost.svg"
NAMES = {
    DIRECT: "Redis alone",
    NUTCRACKER: "twemproxy",
    KEYRAIL_NONE: "Keyrail, `--policy none`",
    KEYRAIL_BENCH: "Keyrail, `bench.yaml`",
}
_WORKLOADS = [f"{verb}, P={pipeline}" for pipeline in (1, 16, 64) for verb in ("GET", "SET")]
_RATE, _PROXY_CPU, _REDIS_CPU = 0, 3, 4
"""Columns of a page of `quick`."""

Rows = dict[str, list[str]]


def main() -> None:
    """Write the pages and the chart."""
    for file in PAGES:
        file.write_text(page(file.read_text("utf-8")), "utf-8")
    CHART.parent.mkdir(exist_ok=True)
    CHART.write_text(drawn(), "utf-8")


def page(text: str) -> str:
    """The page with all places filled. Raises KeyError for a place with an unknown name."""

    def filled(place: re.Match[str]) -> str:
        return f"<!-- {place[1]} -->\n{_TEXTS[place[1]]()}\n<!-- end -->"

    return re.sub(r"<!-- (\w+) -->\n.*?\n<!-- end -->", filled, text, flags=re.DOTALL)


def drawn() -> str:
    """The chart of CPU time per command, as SVG."""
    quick = tables("quick")
    panels = []
    for workload in _WORKLOADS[:4]:
        bars = [
            chart.Bar(
                name.replace("`", ""),
                proxy=0.0 if target == DIRECT else figure(quick[workload][target][_PROXY_CPU]),
                redis=figure(quick[workload][target][_REDIS_CPU]),
                rate=figure(quick[workload][target][_RATE]),
            )
            for target, name in NAMES.items()
            if target in quick[workload]
        ]
        panels.append(chart.Panel(workload, bars))
    return chart.svg(panels)


def tables(name: str) -> dict[str, Rows]:
    """The tables of a page of results by their headings, and their rows by the first cell."""
    found: dict[str, Rows] = {"": {}}
    for line in (RESULTS / f"{name}-compiled.md").read_text("utf-8").splitlines():
        if line.startswith("## "):
            found[line[3:]] = {}
        elif line.startswith("| ") and not line.startswith("| |"):
            first, *others = (cell.strip() for cell in line.strip("|").split("|"))
            list(found.values())[-1][first] = others
    return found


def figure(cell: str) -> float:
    """The number in a cell: the median, without the least and the most of the rounds."""
    return float(_median(cell).replace(",", ""))


def _median(cell: str) -> str:
    """A cell without the least and the most of the rounds."""
    return cell.partition(" ")[0]


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("|" + "|".join(f" {cell} " if cell else " " for cell in line) + "|" for line in lines)


def _headline() -> str:
    single, piped = (tables("quick")[f"GET, P={pipeline}"] for pipeline in (1, 16))
    alone, behind = single[DIRECT], single[KEYRAIL_BENCH]
    ratio = figure(behind[_RATE]) / figure(alone[_RATE])
    saved = 1 - figure(behind[_REDIS_CPU]) / figure(alone[_REDIS_CPU])
    return (
        f"**A GET costs {figure(behind[_PROXY_CPU]):.1f} µs of CPU in Keyrail, and "
        f"{figure(piped[KEYRAIL_BENCH][_PROXY_CPU]):.1f} µs in a pipeline of 16.** With 50 clients that send\n"
        f"single GETs, the throughput is {ratio:.2f} times that of Redis alone, "
        f"and Redis needs {saved:.0%} less CPU: Keyrail combines\nthe commands of many clients into few writes."
    )


def _throughput() -> str:
    quick = tables("quick")

    def cell(target: str, workload: str) -> str:
        cells = quick[workload][target]
        rate, proxy = _median(cells[_RATE]), _median(cells[_PROXY_CPU])
        return rate if proxy == "–" else f"{rate} ({proxy})"

    rows = [[name, *(cell(target, workload) for workload in _WORKLOADS)] for target, name in NAMES.items()]
    return _table(["commands/s (proxy CPU in µs per command)", *_WORKLOADS], rows)


def _goals() -> str:
    kept, free = (tables(run)["Goals"] for run in ("quick", "quick-together"))
    missed = [[what, goal, got, bare] for what, (goal, got, verdict, bare) in kept.items() if verdict == "MISSED"]
    text = (
        f"{_met(kept)} goals are met. A goal is a ratio within a round, shown with the least and the most of the "
        "rounds. If the kernel\nplaces the load, the proxy and Redis where it likes, "
        f"{_met(free)} are met, and the spread is wider."
    )
    return f"{text}\n\n{_table(['missed', 'goal', 'measured', 'Redis alone'], missed)}" if missed else text


def _met(goals: Rows) -> str:
    return f"{sum(cells[2] == 'met' for cells in goals.values())} of {len(goals)}"


def _costs() -> str:
    def judged(what: str, cell: str, least: float) -> list[str]:
        return [what, cell, f"≥ {least:g}", "met" if figure(cell) >= least else "MISSED"]

    rules, traces = tables("rules-strict"), tables("traces")[""]["GET, P=16"]
    rows = [
        judged(
            f"all rules of `strict.yaml`, {verb} P=16: throughput, of `--policy none`'s",
            rules[f"{verb}, P=16"]["all rules"][1],
            0.8,
        )
        for verb in ("GET", "SET")
    ]
    rows.append(judged("traffic statistics, GET P=16: throughput, on against off", traces[0], 0.95))
    rows.append(["traffic statistics, GET P=16: proxy CPU, on against off", traces[1], "stated", ""])
    rows += [[what, *cells] for what, cells in tables("memory")[""].items()]
    return _table(["", "measured", "goal", ""], rows)


_BOUNDS = ("limits", "cluster", "local-cache")
"""The pages whose goals are bounds that we aim at."""


def _limits() -> str:
    goals = [(name, what, cells) for name in _BOUNDS for what, cells in tables(name)["Goals"].items()]
    judged = [each for each in goals if each[2][2] in ("met", "MISSED")]
    missed = [[f"{what} (`{name}`)", *cells[:2]] for name, what, cells in judged if cells[2] == "MISSED"]
    text = f"{len(judged) - len(missed)} of {len(judged)} bounds are reached. These are not:"
    return f"{text}\n\n{_table(['', 'bound', 'measured'], missed)}"


def _pages() -> str:
    """The list of results."""
    rows = []
    for file in sorted(Path(RESULTS).glob("*-compiled.md")):
        text = file.read_text("utf-8")
        about = dict(re.findall(r"^- (\w+): (.*)$", text, re.MULTILINE))
        title = re.search(r"^# (.*)$", text, re.MULTILINE)
        assert title is not None, f"{file} has no title"
        rows.append([f"[{title[1]}](../loadtest/results/{file.name})", about.get("processors", ""), about["when"]])
    return _table(["result", "processors", "when"], rows)


_TEXTS = {
    "headline": _headline,
    "throughput": _throughput,
    "goals": _goals,
    "costs": _costs,
    "limits": _limits,
    "pages": _pages,
}
