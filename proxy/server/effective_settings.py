"""The settings in force as plain data, without secrets: ``/config``.

Each field of ``Settings`` is shown under its own name. Times are in seconds, sizes in bytes. A secret is shown as the
file that has it, or as ``set``: what may be shown is told by types, so a new field needs no thought here.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from proxy.net.config.address import ListenAddress, UpstreamAddress
from proxy.net.config.endpoint import Endpoint
from proxy.net.config.settings import PolicySource, Settings
from proxy.net.config.strict_url import Secret

SET = "set"
"""Stands for a secret."""


def shown(settings: Settings) -> dict[str, Any]:
    """The settings, for JSON."""
    found = _value(settings)
    assert isinstance(found, dict), "it is a data class"
    return found


def _value(value: object) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Secret():
            return SET if value.file is None else f"{SET} by {value.file}"
        case Enum():
            return value.value
        case Path() | PolicySource() | Endpoint():
            return str(value)
        case Mapping():
            return {str(key): _value(each) for key, each in value.items()}
        case tuple() | list() if not hasattr(value, "_fields"):
            return [_value(each) for each in value]
    if not is_dataclass(value):
        return SET  # what nobody knows may be a secret
    url = {"url": str(value)} if isinstance(value, ListenAddress | UpstreamAddress) else {}
    return url | {each.name: _value(getattr(value, each.name)) for each in fields(value) if each.repr}
