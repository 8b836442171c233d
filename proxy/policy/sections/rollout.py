"""``rollout: {no-flush: enforce, lifetimes: {default: audit, checkout: enforce 10%}}``."""

from proxy.policy.model import RolloutLine, Stage
from proxy.policy.sections.modes import read_stage
from proxy.policy_yaml.errors import Where
from proxy.policy_yaml.fields import read_mapping
from proxy.policy_yaml.yaml_source import Mapping, Problems, Value

DEFAULT = "default"


def read_rollout(value: Value, problems: Problems) -> tuple[dict[str, RolloutLine], dict[str, Where]]:
    """Each rule's line, and the place of each."""
    mapping = read_mapping(value, problems)
    if mapping is None:
        return {}, {}
    lines: dict[str, RolloutLine] = {}
    for rule, body in mapping.entries.items():
        if isinstance(body, Mapping):
            lines[rule] = _read_line(body, problems)
        else:
            lines[rule] = RolloutLine(read_stage(body, problems))
    return lines, mapping.keys


def _read_line(body: Mapping, problems: Problems) -> RolloutLine:
    stages: dict[str, Stage] = {}
    for app, value in body.entries.items():
        stage = read_stage(value, problems)
        if stage is not None:
            stages[app] = stage
    if not body.entries:
        problems.unexpected(body, "modes such as {default: warn, checkout: enforce}")
    return RolloutLine(stages.pop(DEFAULT, None), stages)
