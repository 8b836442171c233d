"""Who may make a command wait: handlers, before anything is sent. Nobody would catch ``NotYet`` elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.program_source import trees

_RAISED = "NotYet"
_CATCHES = frozenset(
    {"proxy.session.dispatcher.routing", "proxy.session.dispatcher.dispatcher", "proxy.session.progress"}
)


class Function(NamedTuple):
    module: str
    name: str


class Found(NamedTuple):
    """A function: what it calls, where it may raise, and whether it is called later, by others."""

    calls: frozenset[Function]
    raises: bool
    nested: bool


def _imports(module: str, tree: ast.Module) -> dict[str, str]:
    """What each name that a module imports stands for."""
    names = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    return names


def _called(module: str, names: dict[str, str], node: ast.expr) -> Function | None:
    match node:
        case ast.Name(id=name):
            owner, _, function = names.get(name, f"{module}.{name}").rpartition(".")
            return Function(owner, function)
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in names:
            return Function(names[owner], name)
    return None


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without those of functions inside it, and without what is tried for NotYet."""
    for child in ast.iter_child_nodes(function):
        if isinstance(child, ast.FunctionDef | ast.Lambda) or _is_caught(child):
            continue
        yield child
        yield from _own(child)


def _is_caught(node: ast.AST) -> bool:
    if isinstance(node, ast.Try):
        handlers = [ast.unparse(each.type) for each in node.handlers if each.type is not None]
        raised_again = any(isinstance(each, ast.Raise) for handler in node.handlers for each in ast.walk(handler))
        return any(_RAISED in each for each in handlers) and not raised_again
    return isinstance(node, ast.With) and any(f"suppress({_RAISED})" in ast.unparse(each) for each in node.items)


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for path, tree in trees().items():
        if path.startswith("session/"):
            yield "proxy." + path.removesuffix(".py").replace("/", "."), tree


def _functions() -> dict[Function, Found]:
    found: dict[Function, Found] = {}
    for module, tree in _modules():
        names = _imports(module, tree)
        parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef):
                continue
            nested = not isinstance(parents[node], ast.Module)
            own = list(_own(node))
            raises = any(isinstance(each, ast.Raise) and _RAISED in ast.unparse(each) for each in own)
            calls = {_called(module, names, each.func) for each in own if isinstance(each, ast.Call)}
            name = f"{node.name}:{node.lineno}" if nested else node.name
            found[Function(module, name)] = Found(frozenset(filter(None, calls)), raises, nested)
    return found


def _may_wait() -> dict[Function, Found]:
    """All functions that raise ``NotYet``, or call one that does."""
    functions = _functions()
    waits = {function for function, found in functions.items() if found.raises}
    more = True
    while more:
        callers = {function for function, found in functions.items() if found.calls & waits}
        more = not callers <= waits
        waits |= callers
    return {function: functions[function] for function in waits}


@pytest.mark.source
def test_only_handlers_make_a_command_wait() -> None:
    waits = _may_wait()
    assert {"drained", "to_private", "connection_to", "forward", "check"} <= {each.name for each in waits}
    called_later = [
        f"{function.module}: {function.name}"
        for function, found in waits.items()
        if found.nested and function.module not in _CATCHES
    ]
    assert called_later == []


@pytest.mark.source
def test_a_step_does_not_make_its_command_wait_as_a_whole() -> None:
    """Something of it has been sent: in the middle it waits by ``yield``."""
    waits = {(function.module, function.name) for function in _may_wait()}
    steps = {
        (module, node.name)
        for module, tree in _modules()
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and any(isinstance(each, ast.Yield | ast.YieldFrom) for each in _own(node))
    }
    assert len(steps) > 5
    assert not waits.intersection(steps)
