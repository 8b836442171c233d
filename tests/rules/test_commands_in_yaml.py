"""The YAML of the guardrails about commands, transactions and slots."""

import pytest

from proxy.policy_yaml.errors import PolicyError
from proxy.rules.allow_only.rule import AllowOnlySettings
from proxy.rules.databases.rule import DatabasesSettings
from proxy.rules.one_slot.rule import OneSlotSettings
from proxy.rules.read_only.rule import ReadOnlySettings
from proxy.rules.refuse.rule import RefuseSettings
from proxy.rules.replace.rule import ReplaceSettings
from proxy.rules.rule import RuleSettings
from proxy.rules.transactions.rule import TransactionsSettings
from proxy.rules.unknown_commands.rule import UnknownCommandsSettings
from tests.policy.given import policy


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (
            "refuse: [flushall, client kill type, ft.x], allow: [FlushAll async, ft.x y]",
            RefuseSettings(("FLUSHALL", "CLIENT KILL TYPE", "FT.X"), ("FLUSHALL ASYNC", "FT.X Y")),
        ),
        (
            "allow_only: ['@Read', '@string', del, config get]",
            AllowOnlySettings(("DEL", "CONFIG GET"), ("read", "string")),
        ),
        (
            "replace: {del: unlink, flushdb: FlushDB async}",
            ReplaceSettings((("DEL", "UNLINK"), ("FLUSHDB", "FLUSHDB ASYNC"))),
        ),
        ("unknown_commands: refuse", UnknownCommandsSettings()),
        ("read_only: true", ReadOnlySettings()),
        ("databases: [0, 3]", DatabasesSettings((0, 3))),
        ("transactions: refuse", TransactionsSettings()),
        ("transactions: one_slot", OneSlotSettings(commands=False)),
        ("one_slot: true", OneSlotSettings()),
    ],
)
def test_they_are_read(text: str, settings: RuleSettings) -> None:
    assert policy(f"rules: {{a: {{{text}}}}}").rules[0].settings == settings


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("allow_only: ['@reads']", "a.allow_only[0]: found '@reads', expected an ACL category of Redis, such as @read"),
        ("allow_only: [GTE]", "a.allow_only[0]: found 'GTE', expected a command; did you mean "),
        ("allow_only: ['@read', '@READ']", "a.allow_only[1]: found '@READ', expected each command once"),
        ("allow_only: []", "a.allow_only: found an empty list, expected a list such as"),
        ("replace: {FLUSHALL: FLUSHDB ASYNC}", "a.replace.FLUSHALL: found 'FLUSHDB ASYNC', expected a command with"),
        ("unknown_commands: allow", "a.unknown_commands: found 'allow', expected refuse"),
        ("read_only: false", "a.read_only: found 'false', expected true"),
        ("databases: [0, x]", "a.databases[1]: found 'x', expected a whole number from 0"),
        ("databases: [0, 0]", "a.databases[1]: found '0', expected each database once"),
        ("transactions: true", "a.transactions: found 'true', expected one of refuse, one_slot"),
        ("one_slot: maybe", "a.one_slot: found 'maybe', expected true"),
    ],
)
def test_what_is_wrong_with_them_is_an_error(text: str, problem: str) -> None:
    with pytest.raises(PolicyError) as caught:
        policy(f"rules: {{a: {{{text}}}}}")
    assert any(problem in line for line in str(caught.value).splitlines()), str(caught.value)
