"""The generated data: one record for each command, as ``generate`` writes it and ``table`` reads it."""

import json
from importlib import resources
from typing import Any, NamedTuple

from proxy.commands.introspect import Description
from proxy.commands.spec import KeySpec


class Recorded(NamedTuple):
    """A command of the generated data."""

    description: Description
    since: str
    engines: tuple[str, ...]

    @classmethod
    def from_record(cls, name: str, record: dict[str, Any]) -> "Recorded":
        """The command that ``as_record`` wrote."""
        description = Description(
            name=name,
            arity=record["arity"],
            container=record.get("container", False),
            flags=frozenset(record["flags"]),
            categories=frozenset(record["categories"]),
            key_specs=tuple(KeySpec.from_record(key_spec) for key_spec in record.get("keys", ())),
            request_policy=record.get("tips", ("", ""))[0],
            response_policy=record.get("tips", ("", ""))[1],
        )
        return cls(description, record.get("since", ""), tuple(record["engines"]))

    def as_record(self) -> dict[str, Any]:
        """The command as plain data."""
        found = self.description
        record: dict[str, Any] = {
            "arity": found.arity,
            "flags": sorted(found.flags),
            "categories": sorted(found.categories),
            "engines": list(self.engines),
        }
        if found.container:
            record["container"] = True
        if found.key_specs:
            record["keys"] = [key_spec.as_record() for key_spec in found.key_specs]
        if found.request_policy:
            record["tips"] = [found.request_policy, found.response_policy]
        if self.since:
            record["since"] = self.since
        return record


def standard_commands() -> tuple[Recorded, ...]:
    """The generated data of this package."""
    data = json.loads(resources.files(__package__).joinpath("generated.json").read_text("ascii"))
    return tuple(Recorded.from_record(name, record) for name, record in data["commands"].items())
