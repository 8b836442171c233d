"""``scripts: {commands: follow_rules, dynamic_calls: refuse}``."""

from proxy.policy.fields import Fields, choice, read_fields
from proxy.policy.yaml_source import Value
from proxy.rules.scripts import Dynamic, ScriptsSettings


def read_scripts(value: Value, rule: Fields) -> ScriptsSettings | None:
    """What stands under ``scripts``."""
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    follow_rules = fields.read("commands", choice({"follow_rules": True}), False)
    dynamic = fields.read("dynamic_calls", choice({each.value: each for each in Dynamic}), Dynamic.WARN)
    if "commands" not in fields and ("dynamic_calls" not in fields or dynamic is Dynamic.ALLOW):
        rule.problems.add(fields.where, fields.path, "nothing to do", "commands: follow_rules, dynamic_calls, or both")
    fields.finish()
    return ScriptsSettings(follow_rules, dynamic)
