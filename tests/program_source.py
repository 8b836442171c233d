"""The program's source, for tests of what it may not say: each module is parsed once in a test process."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import proxy

PACKAGE = Path(proxy.__file__).parent


@cache
def trees() -> Mapping[str, ast.Module]:
    """Each module, by its path in the package. Nobody may change one."""
    sources = sorted(PACKAGE.rglob("*.py"))
    return {each.relative_to(PACKAGE).as_posix(): ast.parse(each.read_text(encoding="utf-8")) for each in sources}
