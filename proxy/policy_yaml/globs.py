"""Patterns in which ``*`` stands for any characters, as policies write them (``proxy.schema.globs`` matches them)."""

import re

from proxy.policy_yaml.fields import one_or_more, scan
from proxy.policy_yaml.json_schema_recorder import note
from proxy.policy_yaml.yaml_source import Problems, Scalar, Value
from proxy.schema.globs import LONGEST

_KEYS = re.compile(rf"[^?\[\]\\\u0000-\u001f\u007f]{{1,{LONGEST}}}")


def read_key_pattern(value: Value, problems: Problems) -> str | None:
    """A pattern of keys. Other special characters of Redis's patterns are refused, since they would not be special."""
    expected = "a pattern of keys in which only * is special (without ? [ ] \\), such as lock:*"
    match = scan(value, _KEYS, f"{expected}, of at most {LONGEST} characters", problems)
    return None if match is None else match[0]


read_key_patterns = one_or_more(read_key_pattern)
"""One pattern of keys, or a list of them."""


def read_pattern(value: Value, problems: Problems) -> str | None:
    """A pattern of users, client names, listeners or certificates: one line of text."""
    note(value, type=["string", "integer"], maxLength=LONGEST)
    text = value.text if isinstance(value, Scalar) else ""
    if text and len(text) <= LONGEST and text.isprintable():
        return text
    problems.unexpected(value, f"text of at most {LONGEST} characters, in which * stands for any characters")
    return None
