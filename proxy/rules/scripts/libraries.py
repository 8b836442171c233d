"""Redis's reply to FUNCTION LIST: libraries, their functions, and their code if it was requested."""

from collections.abc import Iterator
from dataclasses import dataclass

from proxy.wire.decode import read_reply


@dataclass(frozen=True, slots=True)
class ScriptLibrary:
    """A library that Redis has; its functions in lower case, since Redis ignores the letter case."""

    name: bytes
    functions: frozenset[bytes]
    code: bytes

    def has(self, function: bytes) -> bool:
        """Whether the library has the function."""
        return function.lower() in self.functions


def read_libraries(frame: bytes) -> tuple[ScriptLibrary, ...] | None:
    """The libraries of a reply in either protocol; None for an error or any other reply."""
    found = read_reply(frame)
    return tuple(map(_library, found)) if isinstance(found, list) else None


def _library(value: object) -> ScriptLibrary:
    fields = _fields(value)
    listed = fields.get(b"functions")
    names = (_fields(each).get(b"name") for each in (listed if isinstance(listed, list) else ()))
    functions = frozenset(name.lower() for name in names if isinstance(name, bytes))
    return ScriptLibrary(_bytes(fields.get(b"library_name")), functions, _bytes(fields.get(b"library_code")))


def _fields(value: object) -> dict[object, object]:
    """A map; in RESP2 it is a list of names and values."""
    if isinstance(value, dict):
        return value
    return dict(_pairs(value)) if isinstance(value, list) else {}


def _pairs(flat: list[object]) -> Iterator[tuple[object, object]]:
    return zip(flat[::2], flat[1::2], strict=False)


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else b""
