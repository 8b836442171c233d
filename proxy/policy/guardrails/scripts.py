"""``scripts: {commands: follow_rules, dynamic_calls: refuse, undeclared_keys: refuse}``."""

from proxy.policy.fields import Fields, choice, read_fields
from proxy.policy.yaml_source import Value
from proxy.rules.scripts import Dynamic, ScriptsSettings

_EXPECTED = "commands: follow_rules, dynamic_calls, undeclared_keys: refuse, or several of them"


def read_scripts(value: Value, rule: Fields) -> ScriptsSettings | None:
    """What stands under ``scripts``."""
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    follow_rules = fields.read("commands", choice({"follow_rules": True}), False)
    dynamic = fields.maybe("dynamic_calls", choice({each.value: each for each in Dynamic}))
    declared_keys = fields.read("undeclared_keys", choice({"refuse": True, "allow": False}), False)
    if not (follow_rules or declared_keys or dynamic in (Dynamic.REFUSE, Dynamic.WARN)):
        rule.problems.add(fields.where, fields.path, "nothing to do", _EXPECTED)
    fields.finish()
    if dynamic is None:
        dynamic = Dynamic.WARN if follow_rules else Dynamic.ALLOW
    return ScriptsSettings(follow_rules, dynamic, declared_keys)
