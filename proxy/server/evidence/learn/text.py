"""A learnt policy as YAML; comments have its evidence. Names of keys and clients may be hostile: all are ASCII here."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from proxy.policy.apps import UNKNOWN, App
from proxy.policy.explain import word_as_typed
from proxy.policy_yaml.fields import write_duration
from proxy.server.evidence.learn.entries import LearntEntry
from proxy.server.evidence.learn.facts import Facts, Span
from proxy.wire.numbers import read_digits

NAMES, TYPES, SIZES, LIFETIMES = "learnt-names", "learnt-types", "learnt-sizes", "learnt-lifetimes"
_RULES = {
    NAMES: "names: {in_schema: true}, applies_to: all, instead: use a key of the schema",
    TYPES: "schema: type, applies_to: all",
    SIZES: "schema: size",
    LIFETIMES: "schema: ttl, outside: refuse",
}
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_WIDTH, _MOST_NAMED, _MOST_LINES = 200, 6, 30
_KILO = 1000
_BYTE, _PLANE = 0xFF, 0xFFFF


@dataclass(slots=True)
class LearntTest:
    """A test: a command, the app that sends it, and the rule that refuses it; none: it passes unchanged."""

    argv: Sequence[bytes]
    app: str
    refused_by: str = ""


@dataclass(slots=True)
class LearntCommands:
    """An allow list: the rule's name, the apps that it is for (UNKNOWN: clients of no app), and counted commands."""

    rule: str
    apps: list[str]
    commands: Counter[str]

    def add(self, app: str, commands: Counter[str]) -> None:
        """Add an app with the same commands."""
        self.apps.append(app)
        self.commands.update(commands)


@dataclass(slots=True)
class LearntPolicy:
    """All that the text says. `rules` are those of `_RULES` that are left, which are for `only` these apps, if any;
    `off` are the apps for which a rule is off.
    """

    header: list[str] = field(default_factory=list)
    apps: Sequence[App] = ()
    about_apps: dict[str, str] = field(default_factory=dict)
    entries: list[LearntEntry] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)
    commands: list[LearntCommands] = field(default_factory=list)
    only: list[str] = field(default_factory=list)
    off: dict[str, list[str]] = field(default_factory=dict)
    tests: list[LearntTest] = field(default_factory=list)
    apart: list[str] = field(default_factory=list)

    def text(self) -> str:
        """The policy as a file."""
        lines = [*(_comment(line) for line in self.header), "keyrail: 1", "defaults: {mode: audit}"]
        for section in (self._apps(), self._schema(), self._rules(), self._rollout(), self._tests()):
            found = list(section)
            lines += ["", *found] if found else []
        return "\n".join(lines) + "\n"

    def in_force(self) -> list[str]:
        """The rules of the schema that have something to act on."""
        acting = {
            NAMES: bool(self.entries),
            TYPES: any(entry.type for entry in self.entries),
            SIZES: any(entry.size for entry in self.entries),
            LIFETIMES: any(entry.ttl not in {"", "none"} for entry in self.entries),
        }
        return [rule for rule in self.rules if acting[rule]]

    def _apps(self) -> Iterator[str]:
        if self.apps:
            yield "apps:"
        for app in self.apps:
            told = "user" if app.match.user else "client_name"
            patterns = [quoted(each) for each in app.match.user or app.match.client_name]
            match = patterns[0] if len(patterns) == 1 else f"[{', '.join(patterns)}]"
            yield f"  {app.name}: {{match: {{{told}: {match}}}}}{_beside(self.about_apps.get(app.name, ''))}"

    def _schema(self) -> Iterator[str]:
        plain = [entry for entry in self.entries if not entry.apart]
        if self.entries:
            yield "schema:"
        for entry in plain:
            yield from _entry(entry)
        if self.apart:
            yield ""
            yield from (f"  {_comment(line)}" for line in ("Apart, since it fits nothing:", *_few(self.apart)))
        for entry in self.entries:
            if entry.apart:
                yield from _entry(entry)
        bare = [entry.name for entry in self.entries if entry.ttl == "none"]
        if bare:
            yield ""
            yield f"  {_comment('Written without a TTL: ' + ', '.join(bare))}"
        scripts: Counter[tuple[str, str]] = sum((entry.facts.scripts for entry in self.entries), Counter())
        if scripts:
            yield f"  {_comment('Scripts were run on keys of these (their texts are never recorded):')}"
            for (app, command), count in scripts.most_common(_MOST_LINES):
                names = [entry.name for entry in self.entries if (app, command) in entry.facts.scripts]
                yield f"  {_comment(f'{command} of {app}, {amount(count)} uses: ' + ', '.join(names))}"

    def _rules(self) -> Iterator[str]:
        if not self.in_force() and not self.commands:
            yield "rules: {}"
            return
        yield "rules:"
        for rule in self.in_force():
            yield f"  {rule}: {{{_RULES[rule]}{_apps_of(self.only)}}}"
        for each in self.commands:
            yield f"  {each.rule}:{_beside(f'{len(each.commands)} commands of ' + ', '.join(each.apps))}"
            if UNKNOWN not in each.apps:
                yield f"    apps: [{', '.join(each.apps)}]"
            yield "    allow_only:"
            for command, count in each.commands.most_common():
                yield f"      - {quoted(command)}{_beside(amount(count))}"

    def _rollout(self) -> Iterator[str]:
        rules = {each.rule for each in self.commands}
        shown = {rule: apps for rule, apps in self.off.items() if rule in rules and apps}
        if shown:
            yield "rollout:"
        for rule, apps in shown.items():
            yield f"  {rule}: {{default: audit, {', '.join(f'{app}: off' for app in apps)}}}"

    def _tests(self) -> Iterator[str]:
        if self.tests:
            yield "tests:"
        for test in self.tests:
            sent = quoted(" ".join(word_as_typed(word) for word in test.argv))
            sender = f", app: {test.app}" if test.app and test.app != UNKNOWN else ""
            outcome = f"refused_by: {test.refused_by}" if test.refused_by else "unchanged: true"
            yield f"  - {{send: {sent}{sender}, {outcome}}}"


def _apps_of(apps: Sequence[str]) -> str:
    return f", apps: [{', '.join(apps)}]" if apps else ""


def _entry(entry: LearntEntry) -> Iterator[str]:
    facts = entry.facts
    yield f"  {entry.name}:"
    yield f"    key: {quoted(entry.pattern.text)}{_beside(f'{amount(facts.uses)} uses: {listed(facts.commands)}')}"
    used = f"writes: {listed(facts.writers) or 'none'}; reads: {listed(facts.readers) or 'none'}"
    yield f"    app: {entry.app}{_beside(used)}" if entry.app else f"    {_comment(used)}"
    if entry.type:
        yield f"    type: {entry.type}"
    elif facts.types is not None:
        yield f"    {_comment('of no one type, as these commands tell')}"
    yield f"    ttl: {entry.ttl}{_beside(lifetimes(facts))}" if entry.ttl else f"    {_comment(lifetimes(facts))}"
    if entry.size:
        yield f"    size: {{{', '.join(entry.size)}}}{_beside(_sizes(facts, entry.type))}"
    for part in entry.dropped:
        yield f"    {_comment(f'left out, since it would change what was seen: {part}')}"


def lifetimes(facts: Facts) -> str:
    """TTL coverage and bounds in words."""
    if not facts.created and not facts.ttls:
        return "no write, no TTL"
    covered = f", {100 * facts.with_ttl / facts.created:.3g} % with a TTL" if facts.created else ""
    said = f"{amount(facts.created)} creating writes{covered}"
    if facts.ttls:
        told = ((f"p{round(100 * share)}", facts.quantile(share)) for share in (0.01, 0.5, 0.99))
        most = max(most for _, most in facts.ttls)
        said += f"; {', '.join(f'{name} {_span(span)}' for name, span in told)}, max {_time(most)}"
    if facts.moments:
        said += "; some as points in time, so no bounds"
    return f"{said}; exemplars {_span(facts.exact_ttls)}" if facts.exact_ttls else said


def _sizes(facts: Facts, its_type: str) -> str:
    members = "" if its_type in {"", "string"} else f"; members in a write: {facts.members} at most"
    return f"largest argument: {facts.largest} bytes at most{members}"


def _span(span: Span) -> str:
    return _time(span[0]) if span[0] == span[1] else f"{_time(span[0])}..{_time(span[1])}"


def _time(milliseconds: int) -> str:
    """A time in its two largest units."""
    if milliseconds % _KILO and milliseconds < 10 * _KILO:
        return f"{milliseconds}ms"
    return "".join(re.findall(r"[0-9]+[a-z]", write_duration(-(-milliseconds // _KILO)))[:2])


def amount(number: int) -> str:
    """``812``, ``1.2 k``, ``3.4 M``."""
    for unit, size in (("G", _KILO**3), ("M", _KILO**2), ("k", _KILO)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return str(number)


def listed(counts: Counter[str]) -> str:
    """The largest of these counts."""
    shown = [f"{name} {amount(count)}" for name, count in counts.most_common(_MOST_NAMED)]
    more = len(counts) - len(shown)
    return ", ".join([*shown, *([f"{more} more"] if more else [])])


def _few(lines: Sequence[str]) -> Iterable[str]:
    more = len(lines) - _MOST_LINES
    return (*(f"  {line}" for line in lines[:_MOST_LINES]), *([f"  and {more} more"] if more > 0 else []))


def quoted(text: str) -> str:
    """A text as YAML, in ASCII; plain if it is one word."""
    if _PLAIN.fullmatch(text) and read_digits(text) is None:
        return text
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if " " <= char <= "~":
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code <= _BYTE else f"\\u{code:04x}" if code <= _PLANE else f"\\U{code:08x}"


def _comment(text: str) -> str:
    plain = "".join(char if " " <= char <= "~" else _escaped(char) for char in text)
    return f"# {plain if len(plain) <= _WIDTH else plain[: _WIDTH - 3] + '...'}".rstrip()


def _beside(text: str) -> str:
    return f"  {_comment(text)}" if text else ""
