"""The difference of two policies as text for a terminal, as Markdown for a pull request, and as JSON."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, TypeVar

from proxy.cli.text_forms import Markdown, Plain
from proxy.server.evidence.diff import Change, PolicyDiff, Span
from proxy.traffic.evidence_rows import Identity

_MOST, _MOST_IN_JSON = 3, 100
"""Clients, shapes and exemplars of one change."""
_PLAIN, _MARKDOWN = Plain(), Markdown()
_HARMLESS = "(harmless: clients notice nothing)"

Key = TypeVar("Key")


def text(found: PolicyDiff) -> str:
    """The difference for a terminal."""
    lines = [_summary(found)]
    for kind, changes in groupby(found.changes, key=lambda change: change.kind):
        lines += ["", _title(kind)]
        for each in changes:
            lines.append(f"  {_PLAIN.say(_owner(each.app, found))}: {_PLAIN.say(each.rule)} ({each.mode})")
            lines += (f"    {line}" for line in _details(each, found))
    return "\n".join([*lines, *_untold(found, _PLAIN), *_coverage(found, _PLAIN)])


def _details(change: Change, found: PolicyDiff) -> Iterator[str]:
    yield f"{_counted(change, found)}; before: {change.before}"
    if change.says:
        yield _PLAIN.say(change.says)
    if change.contact and change.contact not in change.says:
        yield f"contact: {_PLAIN.say(change.contact)}"
    yield f"by {', '.join(f'{_PLAIN.say(_client(who))} {span}' for who, span in _most(change.clients))}"
    yield f"on {', '.join(f'{_PLAIN.say(_form(form))} {span}' for form, span in _most(change.forms))}"
    yield from (f"such as {_PLAIN.say(shlex.join(words))}" for words in change.exemplars[:_MOST])


def markdown(found: PolicyDiff) -> str:
    """The difference as Markdown: one table for each kind of change."""
    lines = [_summary(found)]
    for kind, changes in groupby(found.changes, key=lambda change: change.kind):
        lines += ["", f"### {_title(kind)}", ""]
        lines += _table("App and owner", "Rule", "Mode", "Commands", "Before", "Clients", "Such as", "What it says")
        for each in changes:
            cells = (
                _MARKDOWN.cell(_owner(each.app, found)),
                _MARKDOWN.cell(each.rule),
                each.mode,
                _counted(each, found),
                each.before,
                "<br>".join(_MARKDOWN.cell(_client(who)) for who, _ in _most(each.clients)),
                "<br>".join(_MARKDOWN.cell(shlex.join(words)) for words in each.exemplars[:_MOST]),
                _MARKDOWN.cell(each.says),
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, *_untold(found, _MARKDOWN), *_coverage(found, _MARKDOWN)])


def _table(*heads: str) -> list[str]:
    return [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]


def _summary(found: PolicyDiff) -> str:
    commands = sum(its.commands for its in found.coverage.values())
    if not commands:
        return "no command is recorded: nothing is known"
    judged = sum(its.judged for its in found.coverage.values())
    count = len(found.changes)
    changes = "nothing changes" if not count else "1 change" if count == 1 else f"{count} changes"
    return f"{changes} for {judged:,} judged commands, of {commands:,} recorded"


def _title(kind: str) -> str:
    return f"{kind} {_HARMLESS}" if kind == "newly rewritten" else kind


def _owner(app: str, found: PolicyDiff) -> str:
    its = found.coverage[app]
    about = ", ".join(filter(None, (its.team and f"team {its.team}", its.contact)))
    return f"{app} ({about})" if about else app


def _counted(change: Change, found: PolicyDiff) -> str:
    out_of = found.coverage[change.app].commands
    span = change.commands
    share = f" ({span.least / out_of:.3%})" if out_of else ""
    said = f"{span} of {out_of:,}{share}" if change.exact else f"{span} of {out_of:,}"
    if change.elsewhere:
        said += f", {change.elsewhere:,} of them in forms of which no exemplar shows it"
    if change.seen < change.counted:
        said += f"; an estimate: {change.seen / change.counted:.2%} were looked at"
    return said


def _most(found: Mapping[Key, Span]) -> list[tuple[Key, Span]]:
    return sorted(found.items(), key=lambda each: -each[1].most)[:_MOST]


def _client(who: Identity) -> str:
    return " ".join(filter(None, (f"user {who.user}", who.name, who.library, who.address)))


def _form(form: tuple[str, str]) -> str:
    return " ".join(filter(None, form))


def _untold(found: PolicyDiff, form: Plain) -> Iterator[str]:
    if found.untold:
        yield from ("", f"{form.head}cannot be told from evidence", "")
    for (app, rule, why), count in sorted(found.untold.items(), key=lambda each: -each[1]):
        yield f"{form.item}{form.code(rule)} for {count:,} commands of {form.code(app)}: {why}"


def _coverage(found: PolicyDiff, form: Plain) -> Iterable[str]:
    lines = []
    for app, its in sorted(found.coverage.items(), key=lambda each: -each[1].commands):
        if its.unrecorded:
            share = its.unrecorded / max(its.commands, its.unrecorded)
            lines.append(f"{form.code(app)}: {its.unrecorded:,} commands ({share:.1%}) are not recorded in their forms")
        if its.unreadable:
            lines.append(f"{form.code(app)}: {its.unreadable:,} commands cannot be made again from what is recorded")
        if not its.known and app != "unknown":
            lines.append(f"{form.code(app)}: NEW has no such app, so it is judged as a client of none")
    return ["", f"{form.head}not judged", "", *(f"{form.item}{line}" for line in lines)] if lines else []


def as_json(found: PolicyDiff) -> dict[str, Any]:
    """The difference as values that JSON can hold."""
    return {
        "changes": [_change(each) for each in found.changes],
        "untold": [
            {"app": app, "rule": rule, "why": why, "commands": count}
            for (app, rule, why), count in found.untold.items()
        ],
        "apps": [
            {
                "app": app,
                "team": its.team,
                "contact": its.contact,
                "known": its.known,
                "commands": its.commands,
                "judged": its.judged,
                "not_recorded": its.unrecorded,
                "unreadable": its.unreadable,
            }
            for app, its in found.coverage.items()
        ],
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "app": change.app,
        "kind": change.kind,
        "rule": change.rule,
        "mode": change.mode,
        "enforced": change.enforced,
        "before": change.before,
        "contact": change.contact,
        "says": change.says,
        **_span(change.commands),
        "exact": change.exact,
        "without_exemplar": change.elsewhere,
        "counted": change.counted,
        "seen": change.seen,
        "forms": [
            {"command": command, "shape": shape, **_span(span)}
            for (command, shape), span in list(change.forms.items())[:_MOST_IN_JSON]
        ],
        "clients": [
            {"user": who.user, "client_name": who.name, "library": who.library, "address": who.address, **_span(span)}
            for who, span in list(change.clients.items())[:_MOST_IN_JSON]
        ],
        "exemplars": [list(words) for words in change.exemplars],
    }


def _span(span: Span) -> dict[str, int]:
    return {"at_least": span.least, "at_most": span.most}
