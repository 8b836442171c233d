"""Derives the JSON Schema from the readers: recorders take the place of values and note what the readers expect.

A reader runs three times, on recorders of text, of a list and of a mapping, since some readers take several of them.
Each place of a file has one *node*, which collects the forms that a value may have there, and the nodes below it.
"""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from proxy.policy_yaml.errors import Where
from proxy.policy_yaml.yaml_source import Mapping, Problems, Scalar, Sequence, Value

_ANYWHERE = Where("")
_DEEPEST = 8
ANY_KEY = "any"
"""The key of the only entry of a mapping; every reader accepts this name."""

Shape: TypeAlias = dict[str, Any]


@dataclass(slots=True)
class Node:
    """One place: `fields` by key, `member` for the value of any other key, `item` for each item of a list."""

    shapes: list[Shape] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    fields: dict[str, "Node"] = field(default_factory=dict)
    member: "Node | None" = None
    item: "Node | None" = None
    depth: int = 0

    def note(self, shape: Shape) -> None:
        """Note one of the forms that the value may have."""
        if shape not in self.shapes:
            self.shapes.append(shape)

    def field(self, key: str) -> "Node":
        """The place of a key."""
        return self.fields.setdefault(key, Node(depth=self.depth + 1))

    def schema(self) -> Shape:
        """The JSON Schema of this place."""
        forms = [*self.shapes]
        if self.fields:
            properties = {key: node.schema() for key, node in self.fields.items()}
            forms.append({"type": "object", "properties": properties, "additionalProperties": False})
        elif self.member is not None and self.member.known:
            forms.append({"type": "object", "additionalProperties": self.member.schema()})
        if self.item is not None and self.item.known:
            forms.append({"type": "array", "items": self.item.schema()})
        found = forms[0] if len(forms) == 1 else {"anyOf": forms} if forms else {}
        return {**found, "description": "; or ".join(self.expected)} if self.expected else found

    @property
    def known(self) -> bool:
        """Whether any reader has read it."""
        below = [each for each in (self.member, self.item) if each is not None]
        return bool(self.shapes or self.fields) or any(each.known for each in below)


class TextRecorder(Scalar):
    """A value that is read as text."""

    node: Node
    mode: "Mode"

    def __init__(self, node: Node, mode: "Mode") -> None:
        super().__init__("", _ANYWHERE, "")
        _learn(self, node, mode)


class ListRecorder(Sequence):
    """A value that is read as a list; it has one item."""

    node: Node
    mode: "Mode"

    def __init__(self, node: Node, mode: "Mode") -> None:
        node.item = node.item or Node(depth=node.depth + 1)
        super().__init__((TextRecorder(node.item, mode),), _ANYWHERE, "")
        _learn(self, node, mode)


class MappingRecorder(Mapping):
    """A value that is read as a mapping; it has one entry."""

    node: Node
    mode: "Mode"

    def __init__(self, node: Node, mode: "Mode") -> None:
        node.member = node.member or Node(depth=node.depth + 1)
        below = mode if node.depth < _DEEPEST else TextRecorder
        super().__init__({ANY_KEY: below(node.member, mode)}, {ANY_KEY: _ANYWHERE}, _ANYWHERE, "")
        _learn(self, node, mode)

    def take(self, key: str) -> "Recorder":
        """The value of a key."""
        return self.mode(self.node.field(key), self.mode)


Recorder: TypeAlias = TextRecorder | ListRecorder | MappingRecorder
Mode: TypeAlias = type[TextRecorder] | type[ListRecorder] | type[MappingRecorder]
MODES: tuple[Mode, ...] = (TextRecorder, ListRecorder, MappingRecorder)


def _learn(recorder: "Recorder", node: Node, mode: Mode) -> None:
    # Values are frozen; only this module changes a recorder.
    object.__setattr__(recorder, "node", node)
    object.__setattr__(recorder, "mode", mode)


def note(value: Value, **shape: Any) -> bool:
    """Note one of the forms that a recorder may have; False for any other value."""
    if not isinstance(value, TextRecorder | ListRecorder | MappingRecorder):
        return False
    value.node.note(shape)
    return True


class Expectations(Problems):
    """Collects the texts that readers expect, as descriptions."""

    def unexpected(self, value: Value, expected: str) -> None:
        """Note the expected text at the value's place."""
        if isinstance(value, TextRecorder | ListRecorder | MappingRecorder) and expected not in value.node.expected:
            value.node.expected.append(expected)
