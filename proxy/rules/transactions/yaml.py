"""``transactions: refuse`` or ``transactions: one_slot``."""

from proxy.policy_yaml.fields import Fields, choice
from proxy.policy_yaml.yaml_source import Value
from proxy.rules.one_slot.rule import OneSlotSettings
from proxy.rules.rule import RuleSettings
from proxy.rules.transactions.rule import TransactionsSettings


def read_transactions(value: Value, rule: Fields) -> RuleSettings | None:
    choices: dict[str, RuleSettings] = {
        "refuse": TransactionsSettings(),
        "one_slot": OneSlotSettings(commands=False),
    }
    return choice(choices)(value, rule.problems)
