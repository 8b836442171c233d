"""The fields of hashes: their names and types, as an entry of a schema has them."""

from dataclasses import dataclass
from enum import StrEnum

from proxy.schema.globs import key_glob_of


class FieldType(StrEnum):
    """What a field may have."""

    STRING = "string"
    """Any bytes."""
    INT = "int"
    """A whole number as HINCRBY takes it."""
    FLOAT = "float"
    """A decimal number as HINCRBYFLOAT takes it."""


@dataclass(frozen=True, slots=True)
class HashFields:
    """Names, or patterns in which ``*`` stands for any bytes, and the type of each. A hash has no other fields."""

    types: tuple[tuple[str, FieldType], ...]

    def type_of(self, field: bytes) -> FieldType | None:
        """The type of a field: by its whole name, else by the first pattern that fits. None if no hash has it."""
        fitting = [(name, kind) for name, kind in self.types if key_glob_of(name).fits(field)]
        whole = (kind for name, kind in fitting if "*" not in name)
        return next(whole, fitting[0][1] if fitting else None)
