"""What the rules said on one route: counted by rule, mode and outcome, and logged where the rule's mode is ``warn``."""

import logging
from collections import Counter
from collections.abc import Sequence

from proxy.commands.command import Command
from proxy.net.client import ClientConnection
from proxy.policy.compile import Hit
from proxy.policy.model import Mode
from proxy.session.gate import Seeker

_WARNINGS_PER_SECOND = 10

_log = logging.getLogger("keyrail.route")


class Verdicts:
    """The counts since the start; the log takes a few warnings each second."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._warnings_left = _WARNINGS_PER_SECOND

    def another_second(self) -> None:
        """The log takes warnings again."""
        self._warnings_left = _WARNINGS_PER_SECOND

    def add(self, hit: Hit, count: int) -> None:
        """Count what a rule has done ``count`` times."""
        self._counts[hit.rule, hit.mode.value, hit.what] += count

    def report(self, hits: Sequence[Hit], command: Command, seeker: Seeker) -> None:
        """Count what the rules said, and log what is in ``warn``."""
        for hit in hits:
            self.add(hit, 1)
            if hit.mode is Mode.WARN and self._warnings_left > 0 and isinstance(seeker, ClientConnection):
                self._warnings_left -= 1
                _log.warning(
                    "rule %s would have %s %s from %s (user %s, name %r)",
                    hit.rule,
                    hit.what,
                    command.name,
                    seeker.address,
                    seeker.key.user or "default",
                    seeker.name.decode("utf-8", "replace"),
                )

    def figures(self) -> dict[str, dict[str, int]]:
        """By rule, then by mode and outcome: ``{"names": {"audit refused": 3}}``."""
        figures: dict[str, dict[str, int]] = {}
        for (rule, mode, what), count in self._counts.items():
            figures.setdefault(rule, {})[f"{mode} {what}"] = count
        return figures
