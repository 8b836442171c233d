"""``scripts: {commands: follow_rules, dynamic_calls: refuse, undeclared_keys: refuse, only: [lock.lua]}``."""

import re

from proxy.policy_yaml.fields import Fields, choice, read_fields, read_list
from proxy.policy_yaml.named_file import read_named_file
from proxy.policy_yaml.yaml_source import Problems, Scalar, Value
from proxy.rules.scripts.memory import sha_of
from proxy.rules.scripts.rule import Dynamic, ScriptsSettings

_EXPECTED = "commands: follow_rules, dynamic_calls, undeclared_keys: refuse, only, or several of them"
_SHA = re.compile(r"[0-9A-Fa-f]{40}")
_LARGEST = 1 << 20
_SCRIPT = (
    "a SHA1 of 40 hexadecimal digits, or a file below the folder of this one, such as scripts/lock.lua, of at most 1 MB"
)


def read_scripts(value: Value, rule: Fields) -> ScriptsSettings | None:
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    follow_rules = fields.read("commands", choice({"follow_rules": True}), False)
    dynamic = fields.maybe("dynamic_calls", choice({each.value: each for each in Dynamic}))
    declared_keys = fields.read("undeclared_keys", choice({"refuse": True, "allow": False}), False)
    listed = fields.maybe("only", read_list)
    said = follow_rules or declared_keys or "only" in fields or dynamic in (Dynamic.REFUSE, Dynamic.WARN)
    if not said:
        rule.problems.add(fields.where, fields.path, "nothing to do", _EXPECTED)
    fields.finish()
    if dynamic is None:
        dynamic = Dynamic.WARN if follow_rules else Dynamic.ALLOW
    if listed is None:
        return ScriptsSettings(follow_rules, dynamic, declared_keys)
    registered = [_read_script(each, rule.problems) for each in listed]
    shas = frozenset(sha for sha, _ in registered)
    return ScriptsSettings(follow_rules, dynamic, declared_keys, shas, tuple(file for _, file in registered if file))


def _read_script(scalar: Scalar, problems: Problems) -> tuple[bytes, str]:
    """The SHA1 of a script, and its file if a file names it. If there is none, both are empty and a problem is
    noted."""
    if _SHA.fullmatch(scalar.text):
        return scalar.text.lower().encode(), ""
    found = read_named_file(scalar, _LARGEST, _SCRIPT, problems)
    return (b"", "") if found is None else (sha_of(found[0]), found[1])
