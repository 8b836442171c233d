"""Out of how many commands: what each rule could have had something to say to, by application.

Counted from the moment that the rule came into force here, so that "no hits" means something.
"""

from collections.abc import Iterable, Mapping


class RuleTotals:
    """Holds what had been asked when each rule began; ``totals`` are all commands so far, by application."""

    def __init__(self, rules: Iterable[str]) -> None:
        self._before: dict[str, Mapping[str, int]] = {rule: {} for rule in rules}

    def keep(self, rules: Iterable[str], totals: Mapping[str, int]) -> None:
        """These rules are in force from now on; those among them that were before go on counting."""
        self._before = {rule: self._before.get(rule, dict(totals)) for rule in rules}

    def figures(self, totals: Mapping[str, int]) -> dict[str, dict[str, int]]:
        """Commands by rule and application."""
        return {
            rule: {app: count - before.get(app, 0) for app, count in totals.items()}
            for rule, before in self._before.items()
        }
