"""A strict reader of YAML.

PyYAML's own loader turns `off` into False, and silently uses the second of two equal keys. Here every scalar is the
text of the file, and equal keys are a problem. So are features that a file of settings does not need: several
documents, tags, anchors and aliases (a short file of aliases can expand to gigabytes). Each value knows its line and
its path.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import yaml

from proxy.policy_yaml.errors import Problem, Where, shown
from proxy.policy_yaml.regular_file import NotRegularError, TooLargeError, read_regular
from proxy.policy_yaml.yaml_errors import explained, line_at

_LARGEST = 1_000_000
_DEEPEST = 20


@dataclass(frozen=True, slots=True)
class Scalar:
    """Text, as written."""

    text: str
    where: Where
    path: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    items: tuple["Value", ...]
    where: Where
    path: str


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys and values, in the order of the file; each key with its place."""

    entries: dict[str, "Value"]
    keys: dict[str, Where]
    where: Where
    path: str


Value: TypeAlias = Scalar | Sequence | Mapping


class Problems:
    """Collects problems, so that all of them can be reported at once."""

    def __init__(self) -> None:
        self.found: list[Problem] = []

    def add(self, where: Where, path: str, found: str, expected: str) -> None:
        self.found.append(Problem(where, path, found, expected))

    def unexpected(self, value: Value, expected: str) -> None:
        """Note that a value is not the expected one."""
        self.add(value.where, value.path, describe(value), expected)

    def told_of(self, path: str) -> bool:
        """Whether a problem is already noted at this place or below it."""
        return any(problem.path == path or problem.path.startswith(f"{path}.") for problem in self.found)

    def faulty_rules(self) -> set[str]:
        """The names of the rules with a problem, which are not checked further."""
        return {problem.path.split(".")[1] for problem in self.found if problem.path.startswith("rules.")}


def describe(value: Value) -> str:
    """A value in the words of an error."""
    match value:
        case Scalar(text=""):
            return "nothing"
        case Scalar(text=text):
            return shown(text)
        case Sequence(items=items):
            return "a list" if items else "an empty list"
        case Mapping(entries=entries):
            return "a mapping" if entries else "an empty mapping"


def read_yaml(path: Path, problems: Problems, *, expected: str = "a YAML file") -> Value | None:
    """The one document of a file; None, with problems noted, if it cannot be read at all.

    ``expected`` is the expected text in the error if there is no such file.
    """
    file = str(path)
    text = ""
    try:
        text = read_regular(path, _LARGEST).decode("utf-8-sig")
        node = _compose(text)
    except NotRegularError:
        problems.add(Where(file), "", "a pipe, socket or device", "a regular file")
    except UnicodeDecodeError as error:
        where = Where(file, line_at(error.object, error.start))
        problems.add(where, "", f"the byte 0x{error.object[error.start]:02x}", "UTF-8")
    except TooLargeError:
        problems.add(Where(file), "", f"more than {_LARGEST} bytes", f"at most {_LARGEST}")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        problems.add(Where(file), "", f"no file to read ({reason})", expected)
    except _UnwantedError as error:
        problems.add(Where(file, error.line), "", str(error), error.expected)
    except yaml.YAMLError as error:
        line, found, expected = explained(error, text)
        problems.add(Where(file, line), "", found, expected)
    else:
        if node is not None:
            return _YamlReader(file, problems).convert(node, "")
        problems.add(Where(file), "", "nothing", "a mapping")
    return None


class _UnwantedError(Exception):
    """Valid YAML that a file of settings must not use."""

    def __init__(self, what: str, expected: str, event: yaml.Event) -> None:
        super().__init__(what)
        self.expected = expected
        self.line = 0 if event.start_mark is None else event.start_mark.line + 1


class _StrictLoader(yaml.BaseLoader):
    """Makes nodes whose scalars are all text. Raises _UnwantedError."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def get_event(self) -> yaml.Event:
        event: yaml.Event = super().get_event()  # type: ignore[no-untyped-call]  # PyYAML has no types here
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _UnwantedError("an anchor or alias", "plain values", event)
        self._depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if self._depth > _DEEPEST:  # before the node is made, since that is recursive
            raise _UnwantedError(f"more than {_DEEPEST} levels", f"at most {_DEEPEST}", event)
        return event


def _compose(text: str) -> yaml.Node | None:
    """The document's nodes."""
    loader = _StrictLoader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


class _YamlReader:
    """Turns PyYAML's nodes into values; notes equal keys and everything that is neither text, list nor mapping."""

    def __init__(self, file: str, problems: Problems) -> None:
        self._file = file
        self._problems = problems

    def convert(self, node: yaml.Node, path: str) -> Value:
        where = Where(self._file, node.start_mark.line + 1)
        if not node.tag.startswith("tag:yaml.org,2002:") or node.tag.rpartition(":")[2] not in (
            "str",
            "seq",
            "map",
        ):
            self._problems.add(where, path, f"the tag {shown(node.tag)}", "a value without a tag")
        if isinstance(node, yaml.MappingNode):
            return self._convert_mapping(node, where, path)
        if isinstance(node, yaml.SequenceNode):
            items = (self.convert(item, f"{path}[{i}]") for i, item in enumerate(node.value))
            return Sequence(tuple(items), where, path)
        return Scalar(node.value, where, path)

    def _convert_mapping(self, node: yaml.MappingNode, where: Where, path: str) -> Mapping:
        entries: dict[str, Value] = {}
        keys: dict[str, Where] = {}
        for key, value_node, key_where in self._pairs(node, path):
            key_path = f"{path}.{key}" if path else key
            if key in entries:
                self._problems.add(key_where, key_path, "a second time", f"it once (first in line {keys[key].line})")
                continue
            keys[key] = key_where
            entries[key] = self.convert(value_node, key_path)
        return Mapping(entries, keys, where, path)

    def _pairs(self, node: yaml.MappingNode, path: str) -> Iterator[tuple[str, yaml.Node, Where]]:
        for key_node, value_node in node.value:
            where = Where(self._file, key_node.start_mark.line + 1)
            if isinstance(key_node, yaml.ScalarNode):
                yield key_node.value, value_node, where
            else:
                self._problems.add(where, path, "a key that is not text", "text")
