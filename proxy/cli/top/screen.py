"""The screen as lines of tinted text, for a terminal of any size. This module needs no terminal.

keyrail 0.3.0  route default -> valkey 9.1.0, ready              what runs, and whether it is ready
policy tour, generation 1; kill switch off; 50 clients
108,204/s  Redis p50 0.21 p99 1.40 ms  …                         the last whole second
41,000/s answered from memory  hit 99.9%  …                      the local cache, if it has anything to do
1 Keys  2 Patterns  …                        1m, by all
the view's table, or all of one row, or the help
the keys to press, or a problem
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from proxy.cli.top.asking import Answers
from proxy.cli.top.columns import Column, Line, Row, Tint
from proxy.cli.top.detail import describe
from proxy.cli.top.state import HELP, ViewState
from proxy.cli.top.text import UNKNOWN, bar, cells, clean, clock, cut, fit, levels, milliseconds, rate, share, size
from proxy.cli.top.views import KEYS, RULES, SLOTS, VIEWS, VIOLATIONS, WINDOWS, owners
from proxy.commands.slots import SLOTS as SLOT_COUNT

_GAP = 1
_NARROWEST = 8
"""The least width in cells of a column without a fixed width."""

_MAP_ROWS = 4
_INDENT = 4


@dataclass(frozen=True, slots=True)
class Paper:
    """The terminal's size in cells, and whether it shows more than ASCII."""

    width: int
    height: int
    unicode: bool = True

    def clean(self, text: object) -> str:
        """The text, limited to characters that this terminal shows."""
        return clean(text, ascii_only=not self.unicode)

    @property
    def steps(self) -> str:
        """A cell filled from left to right."""
        return " ▏▎▍▌▋▊▉█" if self.unicode else " #"

    @property
    def rises(self) -> str:
        """A cell filled from below."""
        return " ▁▂▃▄▅▆▇█" if self.unicode else " .:-=+*#"

    @property
    def shades(self) -> str:
        """A cell that gets darker."""
        return "·░▒▓█" if self.unicode else ".:+*#"


def plain(lines: Iterable[Line]) -> list[str]:
    """The lines without tints."""
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def rows_of(answers: Answers, state: ViewState) -> list[Row]:
    """The rows of the view, if its paths have been requested."""
    return state.view.rows(answers.told, state.order) if state.view.paths[0] in answers.told else []


def screen(answers: Answers, state: ViewState, paper: Paper, now: float, problem: str = "") -> list[Line]:
    """Exactly as many lines as the terminal has; ``problem`` says why there is nothing newer."""
    lines = [*head(answers, paper, now), tabs(state, paper)]
    room = paper.height - len(lines) - 1
    lines += _body(answers, state, paper, max(room, 0))
    lines = lines[: max(paper.height - 1, 0)]
    lines += [[] for _ in range(paper.height - 1 - len(lines))]
    lines.append(_foot(state, problem))
    return [_clipped(line, paper) for line in lines[: paper.height]]


def _clipped(line: Line, paper: Paper) -> Line:
    """The line, cut at the right edge and without control characters."""
    kept: Line = []
    room = paper.width
    for text, tint in line:
        shown = cut(paper.clean(text), room)
        room -= cells(shown)
        kept.append((shown, tint))
    return kept


# Above the table


def head(answers: Answers, paper: Paper, now: float) -> list[Line]:
    """The first three lines, and under the first one the reason why Keyrail is not ready; with a local cache, a line
    about it."""
    info, switch = answers.info, answers.switch
    ready = ("ready", Tint.GOOD) if info["ready"] else ("NOT READY", Tint.BAD)
    names = answers.routes
    several = f" ({names.index(answers.route) + 1} of {len(names)})" if len(names) > 1 else ""
    first: Line = [
        (f"keyrail {info['version']}", Tint.STRONG),
        (f"  route {answers.route}{several} -> {info['upstream']}, ", Tint.PLAIN),
        ready,
    ]
    incidents = len(answers.open_incidents())
    if incidents:
        first.append((f"  {incidents} INCIDENT{'S' if incidents > 1 else ''}", Tint.BAD))
    age = max(0.0, now - answers.at)
    if age >= 3:
        first.append((f"  {age:.0f} s ago", Tint.BAD))
    turned = ("kill switch off", Tint.PLAIN)
    if switch["on"]:
        turned = (f"KILL SWITCH ON until {clock(switch['until'])}", Tint.BAD)
    workers = f"{info['workers']} worker{'' if info['workers'] == 1 else 's'}"
    second: Line = [
        (f"policy {PurePath(info['policy']).name}, generation {info['policy_generation']}; ", Tint.PLAIN),
        turned,
        (f"; {info['clients']:,} client{'' if info['clients'] == 1 else 's'}, {workers}", Tint.PLAIN),
    ]
    reason: Line = [(f"{info['reason'] or 'no answer'}", Tint.BAD)]
    banner = [] if info["ready"] else _wrapped(reason, paper)
    return [first, *banner, second, _pace(answers, paper), *_cache(answers, paper)]


def _cache(answers: Answers, paper: Paper) -> list[Line]:
    """What is answered from memory in the window, if a rule is about that and its keys are read."""
    told = answers.told["local_cache"]
    does, would = told["enforce"], told["audit"]
    if not told["rules"] or not any((does["hits"], would["hits"], told["misses"], told["entries"], told["off"])):
        return []
    saved = share(would["saved_redis_seconds"])
    audited = f"  audit: {rate(would['hits'])}/s would be, saving {saved} of a Redis core" if would["hits"] else ""
    pieces = [
        (f"{rate(does['hits'])}/s answered from memory", Tint.STRONG),
        (f"  OFF: {told['off']} without a connection" if told["off"] else "", Tint.BAD),
        (audited, Tint.PLAIN),
        (f"  saves {share(does['saved_redis_seconds'])} of a Redis core", Tint.PLAIN),
        (f"  hit {share(told['hit_ratio'])}", Tint.PLAIN),
        (f"  {size(told['memory_bytes'])} of {size(told['memory_limit_bytes'])}", Tint.PLAIN),
        (f"  {told['entries']:,} replies", Tint.PLAIN),
        (f"  {rate(told['fills'])}/s filled", Tint.PLAIN),
        (f"  {rate(told['invalidations'])}/s invalidated", Tint.PLAIN),
    ]
    line: Line = []
    room = paper.width
    for text, tint in pieces:
        if text and cells(text) <= room:
            line.append((text, tint))
            room -= cells(text)
    return [line]


def _pace(answers: Answers, paper: Paper) -> Line:
    """The last second that is over, and the minute before it as a line of bars."""
    whole = answers.seconds[:-1] or answers.seconds
    last = whole[-1] if whole else {}
    time = {name: milliseconds(last.get(name)) for name in ("p50_ms", "p99_ms", "proxy_p50_ms", "proxy_p99_ms")}
    figures = [
        f"  Redis p50 {time['p50_ms']} p99 {time['p99_ms']} ms",
        f"  Keyrail p50 {time['proxy_p50_ms']} p99 {time['proxy_p99_ms']} ms",
        f"  {size(last.get('bytes_in'))}/s in {size(last.get('bytes_out'))}/s out",
    ]
    line: Line = [(f"{rate(last.get('commands', 0))} commands/s", Tint.STRONG)]
    room = paper.width - cells(line[0][0])
    for figure in figures:
        if cells(figure) <= room:
            line.append((figure, Tint.PLAIN))
            room -= cells(figure)
    if room >= _NARROWEST + 2:
        recent = [float(each["commands"]) for each in whole[-min(room - 2, 60) :]]
        line.append(("  " + levels(recent, paper.rises), Tint.BAR))
    return line


def tabs(state: ViewState, paper: Paper) -> Line:
    """The names of the views, and on the right the window and order of the chosen one."""
    line: Line = []
    for number, view in enumerate(VIEWS, 1):
        line += [(f"{number} {view.name}", Tint.TURNED if view is state.view else Tint.PLAIN), (" ", Tint.PLAIN)]
    room = paper.width - sum(cells(text) for text, _ in line)
    shown = f"by {state.order.name}"
    if "window" in state.view.parameters:
        shown = f"{WINDOWS[state.window]}, {shown}"
    if len(shown) > room:
        shown = shown.replace(", by", "").removeprefix("by ")
    return [*line, (fit(shown, room, right=True) if room > len(shown) else shown, Tint.STRONG)]


def _foot(state: ViewState, problem: str) -> Line:
    if problem:
        return [(f"{problem}; trying again", Tint.BAD)]
    if state.paused:
        return [("paused: press p to continue", Tint.BAD)]
    back = "Esc back" if state.detail else "Enter details"
    return [(f"q quit  ? help  s sort  w window  p pause  arrows, {back}", Tint.FAINT)]


# The middle


def _body(answers: Answers, state: ViewState, paper: Paper, room: int) -> list[Line]:
    if state.help:
        return [[("", Tint.PLAIN)], *([(f"  {keys:<12}", Tint.STRONG), (does, Tint.PLAIN)] for keys, does in HELP)]
    if state.view.paths[0] not in answers.told:
        return [[("asking …" if paper.unicode else "asking", Tint.FAINT)]]
    rows = rows_of(answers, state)
    if state.detail:
        found = next((row for row in rows if state.view.called(row) == state.chosen), None)
        if found is None:
            return [[(f"{state.chosen} is no longer in this list", Tint.FAINT)]]
        return _whole([part for line in describe(answers, state, found) for part in _wrapped(line, paper)], room)
    if not rows and not answers.told.get(KEYS.paths[0], {}).get("counted", True):
        return [[("Keyrail counts no keys under the policy none; the policy default does", Tint.FAINT)]]
    if state.view is SLOTS:
        above = _heat(answers, paper) if room > 2 * _MAP_ROWS else []
        return above + table(state.view.columns, rows, paper, room - len(above), state.view.called, state.chosen)
    if state.view is RULES:
        return _rules(answers, state, rows, paper, room)
    return table(state.view.columns, rows, paper, room, state.view.called, state.chosen)


def _wrapped(line: Line, paper: Paper) -> list[Line]:
    """Wrap the line at spaces instead of cutting it, so that a remedy can be copied."""
    if paper.width < 4 * _INDENT:
        return [line]
    lines: list[Line] = [[]]
    room = paper.width
    for piece, tint in line:
        text = paper.clean(piece)
        while cells(text) > room:
            begin = cut(text, room)
            begin = begin[: begin.rfind(" ")] if " " in begin.strip() else begin
            lines[-1].append((begin, tint))
            lines.append([(" " * _INDENT, Tint.PLAIN)])
            text, room = text[len(begin) :].lstrip(), paper.width - _INDENT
        lines[-1].append((text, tint))
        room -= cells(text)
    return lines


def _whole(lines: list[Line], room: int) -> list[Line]:
    """The lines; if there is no room for all, the last one says how many are missing."""
    if len(lines) <= room:
        return lines
    kept = max(room - 1, 0)
    return [*lines[:kept], [(f"and {len(lines) - kept} lines for a taller terminal", Tint.FAINT)]]


def _rules(answers: Answers, state: ViewState, rows: Sequence[Row], paper: Paper, room: int) -> list[Line]:
    """The rules, and in the lower half the newest violations."""
    violations = answers.told["violations"]["violations"]
    below = min(len(violations) + 2, room // 2) if violations else 0
    lines = table(state.view.columns, rows, paper, room - below, state.view.called, state.chosen)
    if below:
        lines += [[], *table(VIOLATIONS, violations, paper, room - len(lines) - 1)]
    return lines


def _heat(answers: Answers, paper: Paper) -> list[Line]:
    """All 16,384 slots, 64 to a cell, the fuller the busier; of a cluster also who owns those of each row."""
    heat = answers.told["slots"]["heat"]
    across = len(heat) // _MAP_ROWS
    shown = levels(heat, paper.shades)
    crossing = rate(answers.told["slots"]["crossslot"])
    lines: list[Line] = []
    for row in range(_MAP_ROWS):
        first, behind = (each * SLOT_COUNT // _MAP_ROWS for each in (row, row + 1))
        there = " ".join(owners(answers.told["nodes"]["nodes"], first, behind - 1))
        cells_of_row = shown[row * across : (row + 1) * across]
        lines.append([(f"{first:>6} ", Tint.FAINT), (cells_of_row, Tint.BAR), (f"  {there}", Tint.FAINT)])
    return [*lines, [(f"       {crossing}/s commands with keys in more than one slot", Tint.FAINT)]]


def table(
    columns: Sequence[Column],
    rows: Sequence[Row],
    paper: Paper,
    room: int,
    called: Callable[[Row], str] = repr,
    chosen: str | None = None,
) -> list[Line]:
    """A heading and as many rows as fit, the chosen one among them."""
    if room < 1:
        return []
    wide = [column for column in columns if paper.width >= column.least]
    shown = [column for column in wide if column.worth is None or any(map(column.worth, rows))]
    widths = _widths(shown, paper.width)
    heading = "".join(
        fit(column.title, width, right=column.right) + " " * _GAP for column, width in zip(shown, widths, strict=True)
    )
    lines: list[Line] = [[(fit(heading, paper.width), Tint.TURNED)]]
    names = [called(row) for row in rows]
    at = names.index(chosen) if chosen in names else None
    first = 0 if at is None else max(0, at - (room - 2))
    for index, row in enumerate(rows[first : first + room - 1], first):
        lines.append(_row(shown, widths, row, paper, marked=index == at))
    if not rows:
        lines.append([("nothing yet", Tint.FAINT)])
    return lines[:room]


def _row(columns: Sequence[Column], widths: Sequence[int], row: Row, paper: Paper, *, marked: bool) -> Line:
    line: Line = []
    for column, width in zip(columns, widths, strict=True):
        found = column.cell(row)
        if column.bar:
            text = bar(float(str(found)), width, paper.steps)
        else:
            shown = paper.clean(UNKNOWN if found is None else found)
            text = fit(shown, width, right=column.right, whole_ends=column.whole_ends)
        line += [(text, column.tint(row)), (" " * _GAP, Tint.PLAIN)]
    return [(text, Tint.TURNED) for text, _ in line] if marked else line


def _widths(columns: Sequence[Column], width: int) -> list[int]:
    """The width of each column; those without a fixed width share the rest, and the last one gets the remainder."""
    growing = [index for index, column in enumerate(columns) if column.width == 0]
    widths = [column.width for column in columns]
    left = max(width - sum(widths) - _GAP * len(columns), _NARROWEST * len(growing))
    weight = sum(columns[index].weight for index in growing)
    for index in growing:
        widths[index] = left * columns[index].weight // weight
    if growing:
        widths[growing[-1]] = left - sum(widths[index] for index in growing[:-1])
    return widths


def page(answers: Answers, state: ViewState, paper: Paper, now: float) -> list[str]:
    """One screen without a terminal, as long as needed."""
    body = _body(answers, state, paper, paper.height)
    whole = [*head(answers, paper, now), tabs(state, paper), *body]
    return plain(_clipped(line, paper) for line in whole)
