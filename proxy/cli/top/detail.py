"""All details of one row: the story and the clients of a key, or the fields of any other row."""

from typing import Any

from proxy.cli.top.asking import Answers
from proxy.cli.top.columns import Line, Row, Tint
from proxy.cli.top.state import ViewState
from proxy.cli.top.text import UNKNOWN, clock, rate, share, size
from proxy.cli.top.views import INCIDENTS, KEYS, reads_share
from proxy.traffic.redaction import of_tenant

_NAMES = {"client_name": "name"}
_DEEPEST = 3


def describe(answers: Answers, state: ViewState, row: Row) -> list[Line]:
    """Return the details in lines."""
    title: Line = [(state.view.called(row) + of_tenant(row.get("tenant")), Tint.STRONG)]
    if state.view is KEYS:
        hot: Line = [("  HOT", Tint.BAD)] if row["hot"] else []
        return [title + hot, *_story(answers.told["hotkeys"], row), *_incidents(answers, row), [], *_clients(row)]
    if state.view is INCIDENTS:
        return [title, *_lines(row)]
    return [title, *([(text, Tint.PLAIN)] for text in fields(row))]


def _story(told: dict[str, Any], row: Row) -> list[Line]:
    """The lines of an alert: how much, what, where."""
    sure = row["count"] - row["error"]
    uncertain = f" (at most {share(row['share'] * row['error'] / sure)} more)" if row["error"] else ""
    much = f"{rate(row['rate'])}/s = {share(row['share'])} of {rate(told['rate'])}/s in {told['window']} s{uncertain}"
    before = []
    if row["since"]:
        rate_before = f"was {rate(row['before'])}/s" if row["before"] else "not among the busiest keys"
        before = [f"{rate_before} until {clock(row['since'])}"]
    cached = f" ({share(row['cached_share'])} of them answered from memory)" if row["cached_share"] else ""
    cached += f" ({share(row['replica_share'])} of them answered by replicas)" if row["replica_share"] else ""
    what = f"reads {share(reads_share(row))}{cached}, hit {share(row['hit_ratio'])}, "
    what += f"{size(row['bytes_in'])}/s in, {size(row['bytes_out'])}/s out"
    where = f"slot {row['slot']}, pattern {row['pattern'] or 'not known yet'}"
    return [[(text, Tint.PLAIN)] for text in (much, *before, what, where)]


def _incidents(answers: Answers, row: Row) -> list[Line]:
    """The lines of the alert about a key that is in an incident."""
    lines: list[Line] = []
    for incident in answers.open_incidents():
        if incident["subject"] == row["key"]:
            lines += [[], [(incident["id"], Tint.BAD)], *_lines(incident)]
    return lines


def _lines(incident: Row) -> list[Line]:
    return [[(text, Tint.PLAIN)] for text in incident["lines"]]


def _clients(row: Row) -> list[Line]:
    lines: list[Line] = [[("behind it" if row["clients"] else "nobody known behind it yet", Tint.FAINT)]]
    for client in row["clients"]:
        words = [f"app {client['app']}", f"user {client['user']}"]
        words += [client[name] for name in ("client_name", "library", "address") if client[name]]
        new: Line = [("  new", Tint.BAD)] if client["new"] else []
        lines.append([(f"{share(client['share']):>7}  ", Tint.STRONG), (", ".join(words), Tint.PLAIN), *new])
    if row["other_clients"]:
        lines.append([(f"{share(row['other_clients']):>7}  ", Tint.STRONG), ("others", Tint.PLAIN)])
    return lines


def fields(value: dict[str, Any], indent: int = 0) -> list[str]:
    """Each field on a line of its own; nested fields are indented."""
    lines: list[str] = []
    for name, each in value.items():
        inner = each if isinstance(each, list) else [each]
        nested = [item for item in inner if isinstance(item, dict)]
        if not nested or indent >= _DEEPEST:
            shown = ", ".join(UNKNOWN if item is None else str(item) for item in inner)
            lines.append(f"{'  ' * indent}{_NAMES.get(name, name)}: {shown}")
        else:
            lines.append(f"{'  ' * indent}{_NAMES.get(name, name)}:")
            for item in nested:
                lines += fields(item, indent + 1)
    return lines
