"""``whole_collections: {commands: [HGETALL, SMEMBERS]}``."""

from proxy.commands.wholes import READS, WHOLES
from proxy.policy.fields import Fields, read_fields, read_list
from proxy.policy.guardrails.commands import read_command
from proxy.policy.yaml_source import Problems, Value
from proxy.rules.whole_collections import WholeCollectionsSettings


def read_whole_collections(value: Value, rule: Fields) -> WholeCollectionsSettings | None:
    """What stands under ``whole_collections``."""
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    settings = WholeCollectionsSettings(fields.read("commands", _read_commands, READS))
    fields.finish()
    return settings


def _read_commands(value: Value, problems: Problems) -> tuple[str, ...] | None:
    commands: dict[str, None] = {}
    for scalar in read_list(value, problems) or ():
        spec = read_command(scalar, problems)
        if spec is None:
            continue
        if spec.name not in WHOLES:
            problems.unexpected(scalar, f"a command that works on whole collections: one of {', '.join(WHOLES)}")
        elif spec.name in commands:
            problems.unexpected(scalar, "each command once")
        commands[spec.name] = None
    return tuple(commands) or None
