"""``unknown_commands: refuse``."""

from proxy.policy_yaml.fields import Fields, choice
from proxy.policy_yaml.yaml_source import Value
from proxy.rules.unknown_commands.rule import UnknownCommandsSettings


def read_unknown_commands(value: Value, rule: Fields) -> UnknownCommandsSettings | None:
    return choice({"refuse": UnknownCommandsSettings()})(value, rule.problems)
