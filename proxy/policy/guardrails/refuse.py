"""``refuse: [FLUSHALL, CONFIG SET]``."""

from proxy.policy.fields import Fields, read_list
from proxy.policy.guardrails.commands import read_command
from proxy.policy.yaml_source import Problems, Scalar, Value
from proxy.rules.refuse import RefuseSettings

_NEVER_REFUSED = ("AUTH", "DISCARD", "EXEC", "HELLO", "QUIT", "RESET", "UNWATCH")
"""Without these a client cannot log in, or cannot leave a state that it is in."""


def read_refuse(value: Value, rule: Fields) -> RefuseSettings | None:
    """The list under ``refuse``."""
    commands: dict[str, None] = {}
    for scalar in read_list(value, rule.problems) or ():
        command = _read_refused(scalar, rule.problems)
        if command in commands:
            rule.problems.unexpected(scalar, "each command once")
        elif command is not None:
            commands[command] = None
    return RefuseSettings(tuple(commands)) if commands else None


def _read_refused(scalar: Scalar, problems: Problems) -> str | None:
    name = " ".join(scalar.text.upper().replace("|", " ").split())
    if "." in name and " " not in name and name.isascii() and name.isprintable():
        return name  # a module's command: the engine behind may have modules that no table knows
    spec = read_command(scalar, problems)
    if spec is not None and spec.display in _NEVER_REFUSED:
        problems.unexpected(
            scalar, "a command that a client can do without; it needs this one to log in or to end a state"
        )
    return None if spec is None else spec.display
