"""Modes as a file writes them: ``audit``, ``enforce``, ``enforce 10%``."""

import re

from proxy.policy.model import Mode, Stage
from proxy.policy_yaml.json_schema_recorder import note
from proxy.policy_yaml.yaml_source import Problems, Scalar, Value

_STAGE = re.compile(r"(off|audit|warn|enforce)(?: +([0-9]{1,2}(?:\.[0-9]{1,2})?)%)?")
_EXPECTED = "off, audit, warn, enforce or enforce 10%"


def read_stage(value: Value, problems: Problems) -> Stage | None:
    """A mode; ``enforce`` may have a share of keys."""
    note(value, type="string", pattern=f"^(?:{_STAGE.pattern})$")
    match = _STAGE.fullmatch(value.text) if isinstance(value, Scalar) else None
    if match is None:
        problems.unexpected(value, _EXPECTED)
        return None
    share = 1.0 if match[2] is None else float(match[2]) / 100
    if share <= 0 or (match[2] is not None and match[1] != "enforce"):
        problems.unexpected(value, f"{_EXPECTED} (a share of keys, for enforce only)")
        return None
    return Stage(Mode(match[1]), value.where, share)


def read_mode(value: Value, problems: Problems) -> Mode | None:
    """A mode without a share."""
    stage = read_stage(value, problems)
    if stage is not None and stage.share < 1:
        problems.unexpected(value, "a mode without a share")
    return None if stage is None else stage.mode
