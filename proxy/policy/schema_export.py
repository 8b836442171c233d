"""A policy's schema as JSON Schema: a text is valid if it is a key that some entry knows.

Each entry is a definition, APP.NAME or NAME, to test the keys of one kind. What JSON Schema has no words for is in
``x-redis``: the type, the TTL in seconds, sizes, and the fields of a hash. Where patterns overlap, the most specific
entry owns a key, as everywhere: a definition alone also accepts keys that a more specific entry owns.
"""

from pathlib import Path
from typing import Any

from proxy.policy.model import Policy
from proxy.schema.bounds import Bounds
from proxy.schema.entries import KeyEntry, KeySize
from proxy.schema.regular_expression import regular_expression


def schema_export(policy: Policy) -> dict[str, Any]:
    """The whole JSON Schema. Without entries, no text is a known key."""
    definitions = {_name(entry): _definition(entry) for entry in policy.schema.entries}
    known: Any = [{"$ref": f"#/$defs/{name}"} for name in definitions]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Keys of {Path(policy.source).name}",
        **({"anyOf": known} if known else {"not": {}}),
        "$defs": definitions,
    }


def _name(entry: KeyEntry) -> str:
    return f"{entry.app}.{entry.name}" if entry.app else entry.name


def _definition(entry: KeyEntry) -> dict[str, Any]:
    facts = entry_facts(entry)
    title, about, example = facts.pop("title"), facts.pop("about", ""), facts.pop("example", "")
    return {
        "title": title,
        **({"description": about} if about else {}),
        "type": "string",
        "pattern": regular_expression(entry.pattern),
        **({"examples": [example]} if example else {}),
        "x-redis": facts,
    }


def entry_facts(entry: KeyEntry) -> dict[str, Any]:
    """What an entry says, without what it does not say; ``ttl`` in seconds, ``size`` in bytes and members."""
    said = {
        "title": entry.title,
        "about": entry.about,
        "app": entry.app,
        "key": entry.pattern.text,
        "example": entry.example,
        "type": entry.type,
        "ttl": None if entry.lifetime is None else _lifetime(entry.lifetime),
        "size": None if entry.size is None else _size(entry.size),
        "fields": {} if entry.fields is None else {name: str(kind) for name, kind in entry.fields.types},
        "relates_to": list(entry.relates_to),
    }
    return {key: value for key, value in said.items() if value}


def _lifetime(lifetime: Bounds) -> dict[str, Any] | str:
    if lifetime.permanent:
        return "none"
    bounds = {"default": lifetime.default, "min": lifetime.least, "max": lifetime.most}
    flags = {"required": lifetime.required, "sliding": lifetime.sliding}
    return {key: value for key, value in (*bounds.items(), *flags.items()) if value}


def _size(size: KeySize) -> dict[str, int]:
    sizes = {"max": size.most_bytes, "members": size.most_members, "members_per_write": size.members_per_write}
    return {key: value for key, value in sizes.items() if value is not None}
