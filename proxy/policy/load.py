"""A policy file as a ``Policy``.

    keyrail: 1                                      # the version of this language
    defaults: {mode: audit, on_rule_error: refuse}  # for rules that say nothing themselves
    traffic: {count_keys: on}
    rules:
      no-keyspace-walks:                            # the name that errors and metrics show
        refuse: [KEYS]                              # one guardrail
        because: one KEYS stops every client        # in the error
        instead: use SCAN with MATCH and COUNT      # in the error
        mode: enforce

Whatever is not known is an error, with its place, and all errors of a file are reported at once.
"""

import re
from pathlib import Path

from proxy.policy.contradictions import find_contradictions
from proxy.policy.errors import PolicyError, Where, shown
from proxy.policy.fields import Fields, choice, read_fields, read_line, read_mapping
from proxy.policy.guardrails import GUARDRAILS
from proxy.policy.model import Mode, OnError, Policy, PolicyRule
from proxy.policy.yaml_source import Problems, Scalar, Value, read_yaml
from proxy.rules.rule import Settings, Wording

_VERSION = "1"
_MODES = {mode.value: mode for mode in Mode}
_ON_ERROR = {each.value: each for each in OnError}
_SWITCH = {"on": True, "off": False}
_RULE_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")


def load_policy(path: Path) -> Policy:
    """The policy in a file; raises PolicyError with everything that is wrong with it."""
    problems = Problems()
    value = read_yaml(path, problems)
    policy = Policy(source=str(path)) if value is None else _read_policy(value, str(path), problems)
    if problems.found:
        raise PolicyError(problems.found)
    return policy


def packaged(name: str) -> Path:
    """Where the packaged policy `name` (``default``, ``tour.yaml``) is: beside this module once installed,
    else in the source tree. Raises FileNotFoundError if there is none of that name."""
    file = name if name.endswith(".yaml") else f"{name}.yaml"
    here = Path(__file__).resolve().parent
    for folder in (here / "packaged", here.parents[1] / "policies"):
        if (folder / file).is_file():
            return folder / file
    raise FileNotFoundError(f"no packaged policy {name}")


def _read_policy(value: Value, source: str, problems: Problems) -> Policy:
    fields = read_fields(value, problems)
    if fields is None:
        return Policy(source=source)
    _check_version(fields)
    mode, on_rule_error = fields.read("defaults", _read_defaults, (Mode.AUDIT, OnError.REFUSE))
    rules = fields.take("rules")
    if rules is None:
        problems.add(fields.where, "rules", "nothing", "a mapping of rules; {} for none")
    count_keys = fields.read("traffic", _read_traffic, True)
    fields.finish()
    policy = Policy(source, () if rules is None else _read_rules(rules, mode, problems), on_rule_error, count_keys)
    find_contradictions(policy, problems)
    return policy


def _check_version(fields: Fields) -> None:
    version = fields.take("keyrail")
    if version is None:
        fields.problems.add(fields.where, "keyrail", "nothing", f"the version of the language: keyrail: {_VERSION}")
    elif not isinstance(version, Scalar) or version.text != _VERSION:
        fields.problems.unexpected(version, f"{_VERSION}, the version of the language that this Keyrail knows")


def _read_defaults(value: Value, problems: Problems) -> tuple[Mode, OnError] | None:
    fields = read_fields(value, problems)
    if fields is None:
        return None
    mode = fields.read("mode", choice(_MODES), Mode.AUDIT)
    on_rule_error = fields.read("on_rule_error", choice(_ON_ERROR), OnError.REFUSE)
    fields.finish()
    return mode, on_rule_error


def _read_traffic(value: Value, problems: Problems) -> bool | None:
    fields = read_fields(value, problems)
    if fields is None:
        return None
    count_keys = fields.read("count_keys", choice(_SWITCH), True)
    fields.finish()
    return count_keys


def _read_rules(value: Value, default: Mode, problems: Problems) -> tuple[PolicyRule, ...]:
    mapping = read_mapping(value, problems)
    if mapping is None:
        return ()
    rules = []
    for name, body in mapping.entries.items():
        where = mapping.keys[name]
        if not _RULE_NAME.fullmatch(name):
            expected = "a name of small letters, digits and hyphens, at most 64"
            problems.add(where, f"rules.{name}", shown(name), expected)
        rule = _read_rule(name, where, body, default, problems)
        if rule is not None:
            rules.append(rule)
    return tuple(rules)


def _read_rule(name: str, where: Where, value: Value, default: Mode, problems: Problems) -> PolicyRule | None:
    fields = read_fields(value, problems)
    if fields is None:
        return None
    settings = _read_guardrail(fields, where)
    mode = fields.read("mode", choice(_MODES), default)
    wording = Wording(because=fields.read("because", read_line, ""), instead=fields.read("instead", read_line, ""))
    fields.finish()
    return None if settings is None else PolicyRule(name, settings, mode, wording, where)


def _read_guardrail(fields: Fields, where: Where) -> Settings | None:
    found = [(key, value) for key in GUARDRAILS if (value := fields.take(key)) is not None]
    if len(found) != 1:
        named = " and ".join(key for key, _ in found) or "no guardrail"
        fields.problems.add(where, fields.path, named, f"exactly one of {', '.join(GUARDRAILS)}")
    settings = [GUARDRAILS[key](value, fields) for key, value in found]
    return settings[0] if len(settings) == 1 else None
