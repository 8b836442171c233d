"""Patterns in which ``*`` stands for any characters, as policies write them (``proxy.schema.globs`` matches them)."""

import re

from proxy.policy_yaml.fields import read_list, scan
from proxy.policy_yaml.json_schema_recorder import note
from proxy.policy_yaml.yaml_source import Problems, Scalar, Value
from proxy.schema.globs import LONGEST

_KEYS = re.compile(rf"[^?\[\]\\\u0000-\u001f\u007f]{{1,{LONGEST}}}")


def read_key_pattern(value: Value, problems: Problems) -> str | None:
    """A pattern of keys. Other special characters of Redis's patterns are refused, since they would not be special."""
    expected = "a pattern of keys in which only * is special (without ? [ ] \\), such as lock:*"
    match = scan(value, _KEYS, f"{expected}, of at most {LONGEST} characters", problems)
    return None if match is None else match[0]


def read_key_patterns(value: Value, problems: Problems) -> tuple[str, ...] | None:
    """One pattern of keys, or a list of them."""
    if not isinstance(value, Scalar):
        found = [read_key_pattern(each, problems) for each in read_list(value, problems) or ()]
        return tuple(each for each in found if each is not None) or None
    pattern = read_key_pattern(value, problems)
    return None if pattern is None else (pattern,)


def read_pattern(value: Value, problems: Problems) -> str | None:
    """A pattern of users, client names, listeners or certificates: one line of text."""
    note(value, type=["string", "integer"], maxLength=LONGEST)
    text = value.text if isinstance(value, Scalar) else ""
    if text and len(text) <= LONGEST and text.isprintable():
        return text
    problems.unexpected(value, f"text of at most {LONGEST} characters, in which * stands for any characters")
    return None
