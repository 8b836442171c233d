"""proxy/ uses everything that it defines: code that only tests use belongs to the tests."""

import ast
from collections.abc import Iterator, Mapping

import pytest

from tests.program_source import trees

CALLED_BY_ASYNCIO = {
    *("connection_made", "connection_lost", "data_received", "eof_received", "pause_writing", "resume_writing"),
}


def definitions(tree: ast.Module) -> Iterator[str]:
    """The functions, classes and methods of a module, but for those with a meaning to Python itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("__"):
            yield node.name


def uses(tree: ast.Module) -> Iterator[str]:
    """The names that a module reads, and the attributes of whatever object. Imports alone are no use."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from node.value.split(".")  # types may be named in quotes


def unused(modules: Mapping[str, ast.Module]) -> set[str]:
    """The places of what no module uses."""
    used = {name for tree in modules.values() for name in uses(tree)} | CALLED_BY_ASYNCIO
    return {f"{place}: {name}" for place, tree in modules.items() for name in definitions(tree) if name not in used}


@pytest.mark.source
def test_what_the_program_defines_it_uses() -> None:
    assert unused(trees()) == set()


def test_what_nothing_uses_is_found() -> None:
    source = "class A:\n    def b(self): return c()\ndef c(): pass\ndef d(): pass\nA().c\n"
    assert unused({"one": ast.parse(source), "two": ast.parse("from one import d")}) == {"one: b", "one: d"}
