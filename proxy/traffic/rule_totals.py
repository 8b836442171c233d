"""How many commands each rule could have judged, by application.

The count begins when the rule comes into force, so that "no hits" can be compared with it.
"""

from collections.abc import Iterable, Mapping

MOVABLE = ""
"""In place of an application: the reads of all, that replicas could answer."""


class RuleTotals:
    """The number of commands when each rule came into force; ``totals`` are all commands so far, by application."""

    def __init__(self, rules: Iterable[str]) -> None:
        self._before: dict[str, Mapping[str, int]] = {rule: {} for rule in rules}

    def keep(self, rules: Iterable[str], totals: Mapping[str, int]) -> None:
        """Set the rules in force; rules that were in force before keep their counts."""
        self._before = {rule: self._before.get(rule, dict(totals)) for rule in rules}

    def figures(self, totals: Mapping[str, int]) -> dict[str, dict[str, int]]:
        """Commands by rule and application."""
        return {
            rule: {app: count - before.get(app, 0) for app, count in totals.items()}
            for rule, before in self._before.items()
        }
