"""Objects are whole when they are constructed: no constructor assigns to an attribute of another object.

Otherwise an object would be wrong until a later constructor completes it. Its own constructor gets what it needs: as a
value, or as a function that is called later.
"""

import ast
from collections.abc import Iterator

import pytest

from tests.program_source import trees

EXEMPT = "policy_yaml/json_schema_recorder.py"
"""A recorder of a policy file is a node that readers complete while they are made: that is all that it is for."""


def rewritten(tree: ast.Module) -> list[str]:
    """The attributes of other objects that constructors of a module assign to."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    made = [(each.name, method) for each in classes for method in each.body]
    return [
        f"{name}.{method.name}: {ast.unparse(target)}"
        for name, method in made
        if isinstance(method, ast.FunctionDef) and method.name in {"__init__", "__post_init__"}
        for target in _assigned(method)
        if ast.unparse(target.value) != method.args.args[0].arg
    ]


def _assigned(method: ast.FunctionDef) -> Iterator[ast.Attribute]:
    for node in ast.walk(method):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node


@pytest.mark.source
def test_no_constructor_rewrites_another_object() -> None:
    found = {path: rewritten(tree) for path, tree in trees().items() if path != EXEMPT}
    assert {path: targets for path, targets in found.items() if targets} == {}


@pytest.mark.parametrize(
    "statement",
    ["other.a = 1", "self.other.a = 1", "other.a += 1", "other.a: int = 1", "x, other.a = 1, 2", "other.b.a = 1"],
)
def test_each_way_to_assign_is_found(statement: str) -> None:
    source = f"class C:\n    def __init__(self, other):\n        self.own = other\n        {statement}\n"
    (found,) = rewritten(ast.parse(source))
    assert found.startswith("C.__init__: ")
