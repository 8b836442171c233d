"""What a report has to know of a policy: its rules with their words and modes, its apps and teams, its exceptions.

    {"policy": "platform.yaml", "apps": {"checkout": {"team": "checkout", "contact": "#checkout"}},
     "schema": [[":", "cart:{user:int}"], …],
     "rules": [{"rule", "where", "app", "apps": [], "keys": ["cart:*"], "because", "instead", "contact",
                "about": ["GET", …], "about_schema": false, "modes": {"unknown": "audit", "checkout": "enforce"},
                "digest"}],
     "exceptions": [{"rule", "app", "keys", "because", "until", "then", "where"}]}

``apps`` and ``keys`` are those that a rule is for; without any, it is for all. ``about`` are the standard commands that
it may have an opinion on. ``schema`` has the separator and the text of each pattern of the schema; a rule that is
``about_schema`` judges only keys that one of these matches. The ``digest`` is equal in all processes. It has two parts:
that of everything by which a rule judges (`judges_by`), and that of what the rule does not judge: apps for which it is
off, and exceptions. Other changes of modes leave it as it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from hashlib import blake2s
from typing import Any

from proxy.commands.table import STANDARD
from proxy.policy.apps import UNKNOWN
from proxy.policy.compile import PolicyCompiler
from proxy.policy.model import Mode, Policy, PolicyRule
from proxy.policy.precedence import effective_mode
from proxy.policy.wording import wording_of
from proxy.policy_yaml.errors import Where

Facts = dict[str, Any]

OFF = str(Mode.OFF)
"""How ``modes`` say that a rule is off."""
DIFFER = ""
"""In place of the digest of a rule that is not the same in all Keyrails."""
_AND = "-"


def facts_of(policy: Policy) -> Facts:
    """The facts about a policy, as values that JSON can hold. This compiles the policy, so it takes a while."""
    about = _commands_of_rules(policy)
    return {
        "policy": policy.source,
        "apps": {app.name: {"team": app.team, "contact": app.contact} for app in policy.apps},
        "schema": [[entry.pattern.separator.decode(), entry.pattern.text] for entry in policy.schema.entries],
        "rules": [_rule(policy, rule, about.get(rule.name, [])) for rule in policy.rules],
        "exceptions": [
            {
                "rule": each.rule,
                "app": each.app,
                "keys": each.keys,
                "because": each.because,
                "until": None if each.until is None else each.until.isoformat(),
                "then": None if each.then is None else str(each.then),
                "where": str(each.where),
            }
            for each in policy.exceptions
        ],
    }


def _rule(policy: Policy, rule: PolicyRule, about: list[str]) -> dict[str, Any]:
    wording = wording_of(policy, rule)
    modes = {
        UNKNOWN if app is None else app.name: str(effective_mode(policy, rule, app, paused=False).stage)
        for app in (None, *policy.apps)
        if rule.app in ("", UNKNOWN if app is None else app.name)
    }
    return {
        "rule": rule.name,
        "where": str(rule.where),
        "app": rule.app,
        "apps": [rule.app] if rule.app else sorted(rule.scope.apps),
        "keys": list(rule.scope.keys),
        "because": wording.because,
        "instead": wording.instead,
        "contact": wording.contact,
        "about": about,
        "about_schema": rule.settings.is_about_schema,
        "modes": modes,
        "digest": digest_of(policy, rule, [app for app, mode in modes.items() if mode == OFF]),
    }


def _commands_of_rules(policy: Policy) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    compiler = PolicyCompiler(policy, STANDARD)
    told_apart = {app for rule in policy.rules for app in (rule.app, *rule.scope.apps)}
    for app in (None, *(app for app in policy.apps if app.name in told_apart)):
        for step in compiler.bind(app, rehearsal=True).steps:
            its = found.setdefault(step.source.name, set())
            its.update(spec.name.replace("|", " ") for spec in STANDARD.specs[1:] if step.rule.touches(spec))
    return {rule: sorted(commands) for rule, commands in found.items()}


def digest_of(policy: Policy, rule: PolicyRule, off: Sequence[str]) -> str:
    """The digest of a rule that is off for these apps."""
    exempted = [
        (each.app, each.keys, str(each.until), str(each.then)) for each in policy.exceptions if each.rule == rule.name
    ]
    entries = [replace(entry, place="") for entry in policy.schema.entries]
    judged_by = rule.settings, rule.scope, entries, policy.on_rule_error
    return _digest(judged_by) + _AND + _digest((rule.app, sorted(off), exempted))


def judges_by(digest: str) -> str:
    """The part of a digest that says by what a rule judges."""
    return digest.partition(_AND)[0]


def _digest(value: object) -> str:
    return blake2s(repr(_plain(value)).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _plain(value: object) -> object:
    # The same text in every process: sets in order, no addresses of objects, no places in files.
    if isinstance(value, Where):
        return None
    if is_dataclass(value):
        return type(value).__name__, [(each.name, _plain(getattr(value, each.name))) for each in fields(value)]
    if isinstance(value, Mapping):
        return sorted((repr(_plain(key)), repr(_plain(its))) for key, its in value.items())
    if isinstance(value, set | frozenset):
        return sorted(repr(_plain(each)) for each in value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, str | bytes | int | float):
        return repr(value)
    own = getattr(value, "__dict__", None) or {
        name: getattr(value, name, None) for name in getattr(type(value), "__slots__", ())
    }
    return type(value).__name__, _plain({name: each for name, each in own.items() if not name.startswith("_")})
