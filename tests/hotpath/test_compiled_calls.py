"""What a method that is compiled as one of C cannot do, and the plain form can: each would show in one form only."""

from __future__ import annotations

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


def test_one_would_be_found() -> None:
    types = "cdef class A(B):\n    cpdef list end(self, lose=*)\n    cdef go_on(self)\n"
    source = "    def __init__(self):\n        super().__init__()\n\n    def end(self):\n        super().end()\n"
    assert super_in_c_methods(types, source) == ["end"]
