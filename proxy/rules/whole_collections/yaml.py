"""``whole_collections: {max: 100, remember: 5s, commands: [HGETALL, SMEMBERS]}``."""

from proxy.commands.whole_collection_commands import READS, WHOLE_COLLECTION_COMMANDS
from proxy.policy_yaml.fields import Fields, choice, integer, read_duration, read_fields
from proxy.policy_yaml.yaml_source import Problems, Value
from proxy.rules.listing_yaml import read_commands
from proxy.rules.whole_collections.rule import WholeCollectionsSettings

_MOST = 999_999_999


def read_whole_collections(value: Value, rule: Fields) -> WholeCollectionsSettings | None:
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    default = WholeCollectionsSettings()
    settings = WholeCollectionsSettings(
        commands=fields.read("commands", _read_commands, READS),
        max=fields.maybe("max", integer(1, _MOST)),
        remember=fields.read("remember", read_duration, default.remember),
        unknown=fields.read("unknown", choice({"pass": True, "refuse": False}), default.unknown),
    )
    fields.finish()
    for key in ("remember", "unknown"):
        if key in fields and "max" not in fields:
            expected = "max beside it: without max, Keyrail looks up no sizes"
            rule.problems.add(fields.line_of(key), fields.path_of(key), "this", expected)
    return settings


def _read_commands(value: Value, problems: Problems) -> tuple[str, ...] | None:
    expected = f"a command that reads whole collections: one of {', '.join(WHOLE_COLLECTION_COMMANDS)}"
    return read_commands(value, problems, lambda spec: spec.name in WHOLE_COLLECTION_COMMANDS, expected)
