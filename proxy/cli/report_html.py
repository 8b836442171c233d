"""A report as one HTML file, by the template report.html."""

import math
import shlex
from typing import Any
from urllib.parse import quote

from proxy.cli.html_file import Filter, render
from proxy.cli.report_text import NO_TEAM, outcome_of, share_text, what_was_seen

_HOUR = 3600
_TREND_WIDTH = 300


def html(report: dict[str, Any]) -> str:
    """The report as HTML."""
    pages = [_page(team) for team in report["teams"]]
    seen = what_was_seen(report)
    filters: dict[str, Filter] = {"command": shlex.join, "anchor": _anchor, "bars": _bars}
    filters |= {"outcome": outcome_of, "share": share_text}
    return render("report.html", filters, report=report, pages=pages, seen=seen, no_team=NO_TEAM)


def _page(team: dict[str, Any]) -> dict[str, Any]:
    """A team with its findings over all apps, each with its app, the most frequent first."""
    found = [(app, each) for app in team["apps"] for each in app["findings"]]
    found.sort(key=lambda place: -place[1]["count"])
    return {
        **team,
        "commands": sum(app["commands"] for app in team["apps"]),
        "breaking": [place for place in found if not place[1]["harmless"]],
        "harmless": [place for place in found if place[1]["harmless"]],
        "clean": [app for app in team["apps"] if all(each["harmless"] for each in app["findings"])],
    }


def _anchor(names: list[str]) -> str:
    """The id of a team's page, or of a finding: no other has it, and it says the same in the next report."""
    return "/".join(quote(name.encode("utf-8", "surrogatepass"), safe="") for name in names)


def _bars(hours: list[tuple[int, int]]) -> str:
    """A count for each hour, as the path of an SVG with bars: 300 wide, 40 high."""
    first, most = hours[0][0], max(count for _, count in hours)
    width = _TREND_WIDTH / ((hours[-1][0] - first) // _HOUR + 1)
    return "".join(
        f"M{(hour - first) // _HOUR * width:.2f} 40v{-math.ceil(40 * count / most)}h{max(1.0, 0.8 * width):.2f}V40z"
        for hour, count in hours
    )
