"""``{keys: 10000, bytes: 1MB, time: 2s, count: 500}``."""

from typing import TypeVar

from proxy.policy_yaml.fields import integer, read_duration, read_fields, read_size
from proxy.policy_yaml.yaml_source import Problems, Value
from proxy.rules.key_walk import WalkBudget

B = TypeVar("B", bound=WalkBudget)

_MOST_KEYS = 1_000_000
_LONGEST = 60


def read_walk_budget(value: Value, problems: Problems, make: type[B]) -> B | None:
    """The budget of a walk over keys, or what is one."""
    fields = read_fields(value, problems)
    if fields is None:
        return None
    default = WalkBudget()
    budget = make(
        keys=fields.read("keys", integer(1, _MOST_KEYS), default.keys),
        bytes=fields.read("bytes", read_size, default.bytes),
        time=fields.read("time", read_duration, default.time),
        count=fields.read("count", integer(1, _MOST_KEYS), default.count),
    )
    fields.finish()
    if budget.time > _LONGEST:
        problems.add(fields.line_of("time"), fields.path_of("time"), f"{budget.time} s", f"at most {_LONGEST}s")
    return budget
