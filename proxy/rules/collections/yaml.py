"""``collections: {members: 5000, streams: 10000, sample: 10%, remember: 5s, lists: refuse, unknown: pass}``."""

from proxy.policy_yaml.fields import Fields, choice, integer, read_duration, read_fields, read_percent
from proxy.policy_yaml.yaml_source import Value
from proxy.rules.collections.rule import CollectionsSettings

_MOST = 999_999_999


def read_collections(value: Value, rule: Fields) -> CollectionsSettings | None:
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    default = CollectionsSettings()
    settings = CollectionsSettings(
        members=fields.maybe("members", integer(1, _MOST)),
        streams=fields.maybe("streams", integer(1, _MOST)),
        sample=fields.read("sample", read_percent, default.sample),
        remember=fields.read("remember", read_duration, default.remember),
        trim=fields.read("lists", choice({"refuse": False, "trim": True}), default.trim),
        unknown=fields.read("unknown", choice({"pass": True, "refuse": False}), default.unknown),
    )
    fields.finish()
    if "members" not in fields and "streams" not in fields:
        rule.problems.add(fields.where, fields.path, "no cap", "members, streams or both")
    elif "lists" in fields and "members" not in fields:
        expected = "members beside it: a cap to trim to"
        rule.problems.add(fields.line_of("lists"), fields.path_of("lists"), "this", expected)
    return settings
