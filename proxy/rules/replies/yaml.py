"""``replies: {elements: 1000, bytes: 1MB, commands: [GET, HGETALL]}``."""

from proxy.policy_yaml.fields import Fields, integer, read_fields, read_size
from proxy.policy_yaml.yaml_source import Problems, Value
from proxy.rules.listing_yaml import read_commands
from proxy.rules.replies.rule import LARGE_READS, RepliesSettings

_MOST = 999_999_999


def read_replies(value: Value, rule: Fields) -> RepliesSettings | None:
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    settings = RepliesSettings(
        elements=fields.maybe("elements", integer(1, _MOST)),
        bytes=fields.maybe("bytes", read_size),
        commands=fields.read("commands", _read_commands, LARGE_READS),
    )
    fields.finish()
    if "elements" not in fields and "bytes" not in fields:
        rule.problems.add(fields.where, fields.path, "no limit", "elements, bytes or both")
    return settings


def _read_commands(value: Value, problems: Problems) -> tuple[str, ...] | None:
    expected = "a command with exactly one reply"
    return read_commands(value, problems, lambda spec: spec.one_reply and not spec.container, expected)
