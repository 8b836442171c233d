"""A report as text for a terminal, and as Markdown for a ticket or a pull request.

Names of keys and clients are chosen by others: they are printed on one line, without control characters, and in
Markdown without effect.
"""

import shlex
from collections.abc import Iterable, Iterator
from typing import Any

from proxy.cli.text_forms import Markdown, Plain

_MOST = 3
"""Clients, shapes and exemplars of one finding in the text; JSON has more."""
_ALREADY = {
    "error": "made the rule itself fail",
    "skipped": "left as they are, since the rule could not be applied",
    "noticed": "noticed in a reply",
}
"""Outcomes that are the same in each mode."""
_LEAST_SHARE = 0.00001
NO_TEAM = "applications without a team"


def text(report: dict[str, Any]) -> str:
    """The report for a terminal."""
    return "\n".join(_lines(report, Plain()))


def markdown(report: dict[str, Any]) -> str:
    """The report as Markdown."""
    return "\n".join(_lines(report, Markdown()))


def _lines(report: dict[str, Any], form: Plain) -> Iterator[str]:
    yield what_was_seen(report)
    if report["gaps"]:
        yield f"not seen: {len(report['gaps'])} times in between, when nobody watched"
    for reason, count in report["lost"].items():
        yield f"not recorded: {count} {form.say(reason)}"
    for team in report["teams"]:
        yield ""
        whom = f" (ask {form.say(team['contact'])})" if team["contact"] else ""
        yield f"{form.head}{form.say(team['team'] or NO_TEAM)}{whom}: {team['refused']:,} would be refused"
        for app in team["apps"]:
            yield from _app(app, form)
    yield from _quotas(report["quotas"], form)
    yield from _rest(report, form)


def what_was_seen(report: dict[str, Any]) -> str:
    """How many commands, and when."""
    if report["since"] is None:
        return "nothing was seen yet"
    hours = report["watched_seconds"] / 3600
    return f"{report['commands']:,} commands in {hours:,.1f} h, from {report['since']} to {report['until']}"


def _app(app: dict[str, Any], form: Plain) -> Iterator[str]:
    breaking = [each for each in app["findings"] if not each["harmless"]]
    harmless = [each for each in app["findings"] if each["harmless"]]
    yield ""
    if not breaking:
        yield f"{form.rule}{form.say(app['app'])}: nothing of {app['commands']:,} commands would be refused"
    for each in breaking:
        yield f"{form.rule}{form.say(app['app'])}: {_counted(each, form)}"
        yield from (f"{form.item}{line}" for line in _details(each, form))
    if harmless:
        said = "; ".join(f"{form.say(each['rule'])} {form.say(each['outcome'])} {each['count']:,}" for each in harmless)
        yield f"{form.item}harmless, no client notices: {said}"


def outcome_of(finding: dict[str, Any]) -> str:
    """What has happened to the commands, or would."""
    done = str(finding["outcome"])
    return _ALREADY.get(done) or (done if finding["mode"].startswith("enforce") else f"would be {done}")


def share_text(finding: dict[str, Any]) -> str:
    """The share of a finding's commands; what has happened is never 0 %."""
    return f"{finding['share']:.3%}" if finding["share"] >= _LEAST_SHARE else f"below {_LEAST_SHARE:.3%}"


def _counted(finding: dict[str, Any], form: Plain) -> str:
    share = f"{finding['count']:,} of {finding['out_of']:,} ({share_text(finding)})"
    where = f"{form.say(finding['mode'])}, {form.say(finding['where'])}"
    return f"{form.say(finding['rule'])} ({where}): {share} {form.say(outcome_of(finding))}"


def _details(finding: dict[str, Any], form: Plain) -> Iterator[str]:
    yield f"since {finding['first_seen']}, last {finding['last_seen']}"
    yield from _named("by", finding["clients"], _client, form)
    yield from _named("with", finding["commands"], lambda each: each["command"], form)
    yield from _named("on", finding["shapes"], lambda each: each["shape"], form)
    if finding["not_told_apart"]:
        yield f"not told apart: {finding['not_told_apart']:,}"
    for each in finding["exemplars"][:_MOST]:
        behind = f", in Redis behind {form.code(each['prefix'])}" if each.get("prefix") else ""
        yield f"such as {form.code(shlex.join(each['words']))}{behind}"
        if each["why"]:
            yield f"  {form.code(each['why'])}"
    said = (("because", finding["because"]), ("instead", finding["instead"]), ("contact", finding["contact"]))
    yield from (f"{name}: {form.say(words)}" for name, words in said if words)
    for each in finding["exceptions"]:
        yield f"exception at {form.say(each['where'])}: {_exception(each, form)}"


def _named(word: str, found: list[dict[str, Any]], name: Any, form: Plain) -> Iterator[str]:
    if found:
        shown = ", ".join(f"{form.code(name(each))} {each['count']:,}" for each in found[:_MOST])
        more = f", and {len(found) - _MOST} more" if len(found) > _MOST else ""
        yield f"{word} {shown}{more}"


def _client(client: dict[str, Any]) -> str:
    parts = (f"user {client['user']}", client["client_name"], client["library"], client["address"])
    return " ".join(filter(None, parts))


def _exception(exception: dict[str, Any], form: Plain) -> str:
    keys = f" of {form.code(exception['keys'])}" if exception["keys"] else ""
    until = f"until {exception['until']}" if exception["until"] else "without an end"
    return f"{form.say(exception['rule'])}{keys} for {form.say(exception['app'] or 'all')}, {until}"


def _quotas(quotas: list[dict[str, Any]], form: Plain) -> Iterator[str]:
    if quotas:
        yield ""
        yield f"{form.head}quotas"
    several = len({each["keyrail"] for each in quotas}) > 1
    for each in quotas:
        limits = (f"{each[what]:,} {what}" for what in ("keys", "bytes") if each[what] is not None)
        where = f", {form.say(each['keyrail'])}" if several else ""
        of = f"{form.say(each['rule'])} ({form.say(each['route'])}{where})"
        yield f"{form.item}{of}: at most {' and '.join(limits)} of each app; {_standing(each, form)}"
        for owner, its in each["owners"].items():
            over = ", which is too much" if its["over"] else ""
            gone = f"{its['gone_at_most']:,} of these keys may be gone"
            yield f"{form.item}{form.code(owner)} has {its['keys']:,} keys of {its['bytes']:,} bytes{over}; {gone}"


def _standing(quota: dict[str, Any], form: Plain) -> str:
    if quota["scan"] is None:
        return f"refuses nothing: {form.say(quota['missing'])}"
    return f"{'judges by' if quota['judges'] else 'refuses nothing by'} the scan of {quota['scan']}"


def _rest(report: dict[str, Any], form: Plain) -> Iterable[str]:
    if report["silent"]:
        yield ""
        yield f"{form.head}rules without a finding"
    for each in report["silent"]:
        yield f"{form.item}{form.say(each['rule'])} ({form.say(each['where'])}): {each['proof']}"
    for title, name in (("exceptions that nothing used", "unused"), ("exceptions that end soon", "ending")):
        if report[f"{name}_exceptions"]:
            yield ""
            yield f"{form.head}{title}"
        for each in report[f"{name}_exceptions"]:
            yield f"{form.item}{form.say(each['where'])}: {_exception(each, form)}"
