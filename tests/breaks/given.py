"""A break: what is changed in a copy of the program, and which test fails then."""

from __future__ import annotations

from typing import NamedTuple

from tests.broken_program import Change


class Break(NamedTuple):
    """What is changed, the test that fails then, and what else must be changed, as another module makes up for it."""

    module: str
    right: str
    wrong: str
    test: str
    beside: Change | None = None

    @property
    def changes(self) -> list[Change]:
        """All that is changed."""
        return [Change(self.module, self.right, self.wrong), *([self.beside] if self.beside else [])]
