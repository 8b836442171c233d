"""What a method that is compiled as one of C cannot do, and the plain form can: each would show in one form only."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "proxy"
C_METHOD = re.compile(r"^    c(?:p)?def (?:[\w ]+ )?(\w+)\(", re.MULTILINE)
METHOD = re.compile(r"^    def (\w+)\((.*?)(?=^    def |^    @|\Z)", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.source


def super_in_c_methods(types: str, source: str) -> list[str]:
    compiled = set(C_METHOD.findall(types))
    return [name for name, body in METHOD.findall(source) if name in compiled and "super()" in body]


def test_no_method_that_is_compiled_as_one_of_c_calls_super() -> None:
    """Cython finds no ``__class__`` there, and says so only when it runs."""
    hot = sorted(PROGRAM.rglob("*.pxd"))
    assert hot
    found = {each.stem: super_in_c_methods(each.read_text(), each.with_suffix(".py").read_text()) for each in hot}
    assert not {name: methods for name, methods in found.items() if methods}


def from_the_end(source: str) -> list[str]:
    """Subscripts whose index is a negative number."""
    found = (each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Subscript))
    return [ast.unparse(each) for each in found if re.match(r"-\d+$", ast.unparse(each.slice))]


def test_no_compiled_module_counts_from_the_end() -> None:
    """With ``wraparound=False`` that reads the memory before a list."""
    hot = [each.with_suffix(".py") for each in sorted(PROGRAM.rglob("*.pxd"))]
    assert not {each.stem: found for each in hot if (found := from_the_end(each.read_text()))}
    assert from_the_end("size += len(pieces[-1])\nrest = data[:-2]") == ["pieces[-1]"]


def test_one_would_be_found() -> None:
    types = "cdef class A(B):\n    cpdef list end(self, lose=*)\n    cdef go_on(self)\n"
    source = "    def __init__(self):\n        super().__init__()\n\n    def end(self):\n        super().end()\n"
    assert super_in_c_methods(types, source) == ["end"]
