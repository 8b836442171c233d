"""The problems of a file, each with its place, the text found there, and the expected text."""

from collections.abc import Iterable
from dataclasses import dataclass

from proxy.policy_yaml.shipped import shown_file

_LONGEST_SHOWN = 60


@dataclass(frozen=True, slots=True, order=True)
class Where:
    """A place in a file. Lines count from 1; 0 is the file as a whole."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        file = shown_file(self.file)
        return f"{file}:{self.line}" if self.line else file


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem; `path` leads to it from the top of the file (``rules.no-flush.refuse[0]``)."""

    where: Where
    path: str
    found: str
    expected: str

    def __str__(self) -> str:
        place = f"{self.where}: {self.path}" if self.path else str(self.where)
        line = f"{place}: found {self.found}, expected {self.expected}"
        return "".join(each if each.isprintable() else "?" for each in line)


class PolicyError(Exception):
    """A policy that cannot be used; `problems` in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.where))
        super().__init__("\n".join(str(problem) for problem in self.problems))


def shown(text: str) -> str:
    """Text from a file for an error: quoted, on one line, and cut if it is long."""
    if len(text) > _LONGEST_SHOWN:
        text = text[:_LONGEST_SHOWN] + "…"
    return repr(text)
