"""``refuse: [FLUSHALL, CONFIG SET]``, with ``allow: [FLUSHALL ASYNC]`` beside it."""

from proxy.commands.rows import ROWS
from proxy.commands.table import STANDARD
from proxy.policy_yaml.fields import Fields
from proxy.policy_yaml.yaml_source import Problems, Scalar, Sequence, Value
from proxy.rules.listing import entry_of
from proxy.rules.listing_yaml import read_listing
from proxy.rules.refuse.rule import RefuseSettings

NEVER_REFUSED = frozenset(row.display for row in ROWS.values() if row.needed)
"""Without these a client cannot log in, or cannot leave its state."""


def read_refuse(value: Value, rule: Fields) -> RefuseSettings | None:
    """The list under ``refuse``, and the one under ``allow``."""
    problems = rule.problems
    commands = read_listing(value, problems)
    for scalar in _scalars(value):
        if entry_of(scalar.text, STANDARD).command in NEVER_REFUSED:
            expected = "a command that clients do not need; they need this one to log in or to leave a state"
            problems.unexpected(scalar, expected)
    allowed_value = rule.take("allow")
    allow = () if allowed_value is None else read_listing(allowed_value, problems)
    if allowed_value is not None:
        _check_narrower(allowed_value, allow, commands, problems)
    return RefuseSettings(commands, allow) if commands else None


def _check_narrower(value: Value, allow: tuple[str, ...], refused: tuple[str, ...], problems: Problems) -> None:
    """Note each allowed command that is not a narrower form of a refused one."""
    for scalar in _scalars(value):
        text = entry_of(scalar.text, STANDARD).text
        if text in allow and not any(text.startswith(f"{each} ") for each in refused):
            problems.unexpected(scalar, "a narrower form of a command that this rule refuses, such as FLUSHALL ASYNC")


def _scalars(value: Value) -> tuple[Scalar, ...]:
    if not isinstance(value, Sequence):
        return ()
    return tuple(item for item in value.items if isinstance(item, Scalar))
