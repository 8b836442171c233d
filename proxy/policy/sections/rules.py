"""``rules: {no-keyspace-walks: {refuse: [KEYS], because: …, instead: …, mode: …, locked: …}}``."""

import re
from operator import eq

from proxy.policy.model import PolicyRule
from proxy.policy.scope import Scope
from proxy.policy.sections.exceptions import read_word
from proxy.policy.sections.modes import read_stage
from proxy.policy_yaml.errors import Where, shown
from proxy.policy_yaml.fields import Fields, choice, one_or_more, read_fields, read_line, read_mapping, read_switch
from proxy.policy_yaml.globs import read_key_pattern
from proxy.policy_yaml.yaml_source import Problems, Value
from proxy.rules.guardrails import GUARDRAILS
from proxy.rules.rule import KEY_BY_KEY, RuleSettings, Wording
from proxy.schema.globs import lies_within
from proxy.wire.numbers import read_digits

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
REMEDY = "remedy-"
"""The beginning of the names of remedies, which no rule of a file may have."""
_SCOPE = ("keys", "except", "apps")
_ANY: tuple[str, ...] = ()
_read_keys = one_or_more(read_key_pattern, lambda one, other: lies_within(other, one))
_read_names = one_or_more(read_word, eq)
_IN_SCRIPTS = {"audit": True, "refuse": False}


def read_rules(value: Value, app: str, problems: Problems) -> tuple[PolicyRule, ...]:
    """The rules of one file; with an `app`, the file is that app's own."""
    mapping = read_mapping(value, problems)
    if mapping is None:
        return ()
    rules = []
    for name, body in mapping.entries.items():
        where = mapping.keys[name]
        if not _NAME.fullmatch(name):
            expected = "a name of lower-case letters, digits and hyphens, at most 64"
            problems.add(where, f"{mapping.path}.{name}", shown(name), expected)
        if name.startswith(REMEDY) and read_digits(name.removeprefix(REMEDY)) is not None:
            expected = "another name: names like this are reserved for remedies"
            problems.add(where, f"{mapping.path}.{name}", shown(name), expected)
        rule = _read_rule(name, where, body, app, problems)
        if rule is not None:
            rules.append(rule)
    return tuple(rules)


def _read_rule(name: str, where: Where, value: Value, app: str, problems: Problems) -> PolicyRule | None:
    fields = read_fields(value, problems)
    if fields is None:
        return None
    mode = fields.take("mode")
    stage = None if mode is None else read_stage(mode, problems)
    because, instead, contact = (fields.read(key, read_line, "") for key in ("because", "instead", "contact"))
    wording = Wording(because, instead, contact)
    locked = fields.read("locked", read_switch, False)
    if locked and stage is not None and str(stage) != "enforce":
        problems.add(fields.line_of("mode"), fields.path_of("mode"), str(stage), "enforce, since the rule is locked")
    audits_scripts = fields.read("in_scripts", choice(_IN_SCRIPTS), False)
    scope = _read_scope(fields, app)
    settings = _read_guardrail(fields, where)
    fields.finish()
    if settings is None:
        return None
    for key in _SCOPE:
        if key in fields and key not in settings.takes:
            told = " and ".join(sorted(settings.takes))
            inside = "; keys are named inside it, and judged one by one" if settings.takes == KEY_BY_KEY else ""
            expected = f"only {told} beside this guardrail{inside}"
            problems.add(fields.line_of(key), fields.path_of(key), key, expected)
    return PolicyRule(name, settings, stage, wording, where, locked, app, audits_scripts, scope)


def _read_scope(fields: Fields, app: str) -> Scope:
    """The keys and the apps that a rule is about; a rule of an app's own file is about that app."""
    keys, without = (fields.read(key, _read_keys, _ANY) for key in ("keys", "except"))
    apps: tuple[str, ...] = fields.read("apps", _read_names, ())
    scope = Scope(keys, without, apps)
    if app and "apps" in fields:
        expected = "nothing, since this file's rules are for its own app"
        fields.problems.add(fields.line_of("apps"), fields.path_of("apps"), "apps", expected)
    for glob in scope.excluded:
        expected = "a pattern with keys that except leaves to the rule"
        fields.problems.add(fields.line_of("keys"), fields.path_of("keys"), shown(glob), expected)
    return scope


def _read_guardrail(fields: Fields, where: Where) -> RuleSettings | None:
    found = [(key, value) for key in GUARDRAILS if (value := fields.take(key)) is not None]
    if found[1:] or all(fields.lacks(key) for key in GUARDRAILS):
        named = " and ".join(key for key, _ in found) or "no guardrail"
        fields.problems.add(where, fields.path, named, f"exactly one of {', '.join(GUARDRAILS)}")
    settings = [GUARDRAILS[key](value, fields) for key, value in found]
    return settings[0] if len(settings) == 1 else None
