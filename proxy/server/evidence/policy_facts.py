"""What a report has to know of a policy: its rules with their words and modes, its apps and teams, its exceptions.

    {"policy": "platform.yaml", "apps": {"checkout": {"team": "checkout", "contact": "#checkout"}},
     "rules": [{"rule", "where", "app", "because", "instead", "contact", "about": ["GET", …],
                "modes": {"unknown": "audit", "checkout": "enforce"}, "digest"}],
     "exceptions": [{"rule", "app", "keys", "because", "until", "then", "where"}]}

``about`` are the standard commands that a rule may have an opinion on. The ``digest`` is that of everything by which a
rule judges; it is equal in all processes. What only decides when a verdict is applied (modes, exceptions) is no part of
it.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from hashlib import blake2s
from typing import Any

from proxy.commands.table import STANDARD
from proxy.policy.apps import UNKNOWN
from proxy.policy.compile import PolicyCompiler
from proxy.policy.model import Policy, PolicyRule
from proxy.policy.precedence import effective_mode
from proxy.policy.wording import wording_of

Facts = dict[str, Any]


def facts_of(policy: Policy) -> Facts:
    """The facts about a policy, as values that JSON can hold. This compiles the policy, so it takes a while."""
    about = _commands_of_rules(policy)
    return {
        "policy": policy.source,
        "apps": {app.name: {"team": app.team, "contact": app.contact} for app in policy.apps},
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
        "because": wording.because,
        "instead": wording.instead,
        "contact": wording.contact,
        "about": about,
        "modes": modes,
        "digest": digest_of(policy, rule),
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


def digest_of(policy: Policy, rule: PolicyRule) -> str:
    """The digest of everything by which a rule judges: its settings, its scope, and the schema."""
    judged_by = _plain(rule.settings), _plain(rule.scope), _plain(policy.schema.entries), _plain(policy.on_rule_error)
    return blake2s(repr(judged_by).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _plain(value: object) -> object:
    # The same text in every process: sets in order, and no addresses of objects.
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
