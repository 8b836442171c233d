"""What the rules said on one route: counted, kept as evidence, and told line by line where the operator wants that.

    count      by rule, mode and outcome: keyrail_verdicts_total
    evidence   by rule and application, with shapes, clients and a sample: /rules and KEYRAIL RULES
    lines      one for each violation, a few for each rule and second: --violations; else a warning for each `warn`

A rewrite that is enforced has mended the command: it is counted, and no violation.
"""

import logging
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.commands.command import Command
from proxy.net.client import ClientConnection
from proxy.policy.compile import Hit
from proxy.policy.model import Mode
from proxy.session.gate import Seeker
from proxy.traffic.evidence import Evidence, Record, Records, Who, moment
from proxy.traffic.redaction import Redaction
from proxy.traffic.shapes import shape
from proxy.traffic.violations import Allowance, violation_line

_LINES_PER_SECOND, _LINES_AT_ONCE = 10, 50
_WARNINGS_PER_SECOND = 10
_SAMPLE_SECONDS = 1.0
_LONGEST_NAME = 64

_log = logging.getLogger("keyrail.route")


@dataclass(slots=True)
class Seen:
    """What is new since the last time: violations as lines, and the records of evidence that have changed."""

    lines: list[bytes]
    records: Records


class Verdicts:
    """One route's, since the start. Without ``tells`` there are no lines."""

    def __init__(self, route: str, redaction: Redaction, tells: bool) -> None:
        self.evidence = Evidence()
        self._route = route
        self._redaction = redaction
        self._tells = tells
        self._counts: Counter[tuple[str, str, str, str]] = Counter()
        self._lines: list[bytes] = []
        self._allowances: dict[str, Allowance] = {}
        self._dropped: Counter[str] = Counter()
        self._warnings_left = _WARNINGS_PER_SECOND

    def another_second(self) -> None:
        """More lines may be told; what was left out in the last second is said."""
        self._warnings_left = _WARNINGS_PER_SECOND
        for rule, allowance in self._allowances.items():
            dropped = allowance.another_second()
            if dropped:
                self._dropped[rule] += dropped
                self._lines.append(
                    violation_line(time.time(), {"route": self._route, "rule": rule, "dropped": dropped})
                )

    def keep(self, rules: Iterable[str]) -> None:
        """Other rules are in force: the evidence for those that are gone goes with them."""
        kept = set(rules)
        self.evidence.keep(kept)
        self._allowances = {rule: found for rule, found in self._allowances.items() if rule in kept}

    def add(self, hit: Hit, count: int, app: str) -> None:
        """Count what a rule has done ``count`` times to commands that nobody has looked at."""
        self._counts[hit.rule, app, hit.mode.value, hit.what] += count
        self.evidence.record(hit.rule, app).count(hit.mode.value, hit.what, count, time.time())

    def report(self, hits: Sequence[Hit], command: Command, seeker: Seeker) -> None:
        """Take what the rules said of one command."""
        if not isinstance(seeker, ClientConnection):
            raise AssertionError("only clients' commands are judged")
        now = time.time()
        app = seeker.regime.policy.app
        who: Who | None = None
        shown: tuple[str, ...] = ()
        for hit in hits:
            mode = hit.mode.value
            self._counts[hit.rule, app, mode, hit.what] += 1
            record = self.evidence.record(hit.rule, app)
            record.count(mode, hit.what, 1, now)
            if who is None:
                who = _who(seeker)
                shown = tuple(shape(key.name) for key in command.keys[:8])
            record.clients.add((*who[:3], who[3].rpartition(":")[0] or who[3]))
            for each in shown:
                record.shapes.add(each)
            if now - record.sampled >= _SAMPLE_SECONDS or now < record.sampled:
                self._sample(record, hit, command, who, now)
            self._tell(hit, app, command, who, now)

    def _sample(self, record: Record, hit: Hit, command: Command, who: Who, now: float) -> None:
        record.sampled = now
        record.sample = {"time": moment(now), **self._fields(hit, command, who)}

    def _tell(self, hit: Hit, app: str, command: Command, who: Who, now: float) -> None:
        if not self._tells:
            self._warn(hit, command, who)
            return
        if hit.what == "rewritten" and hit.mode is Mode.ENFORCE:
            return
        allowance = self._allowances.get(hit.rule)
        if allowance is None:
            allowance = self._allowances[hit.rule] = Allowance(_LINES_PER_SECOND, _LINES_AT_ONCE)
        if allowance.take():
            fields = {"route": self._route, "rule": hit.rule, "app": app, **self._fields(hit, command, who)}
            self._lines.append(violation_line(now, fields))

    def _fields(self, hit: Hit, command: Command, who: Who) -> dict[str, Any]:
        fields: dict[str, Any] = {"mode": hit.mode.value, "what": hit.what, "command": command.name}
        if hit.detail:
            fields["why"] = hit.detail
        keys = command.keys
        if keys:
            fields["shape"] = shape(keys[0].name)
            fields["key"] = self._redaction.of(keys[0].name)
        if len(keys) > 1:
            fields["keys"] = len(keys)
        fields |= zip(("user", "client_name", "library", "address"), who, strict=True)
        return fields

    def _warn(self, hit: Hit, command: Command, who: Who) -> None:
        if hit.mode is not Mode.WARN or self._warnings_left <= 0:
            return
        self._warnings_left -= 1
        user, name, _, address = who
        _log.warning(
            "rule %s would have %s %s from %s (user %s, name %r)", hit.rule, hit.what, command.name, address, user, name
        )

    # What others want to know

    def seen(self) -> Seen:
        """What is new since the last call."""
        lines, self._lines = self._lines, []
        return Seen(lines, self.evidence.changed())

    def figures(self) -> dict[str, dict[str, dict[str, int]]]:
        """By rule and app, then by mode and outcome: ``{"names": {"unknown": {"audit refused": 3}}}``."""
        figures: dict[str, dict[str, dict[str, int]]] = {}
        for (rule, app, mode, what), count in self._counts.items():
            figures.setdefault(rule, {}).setdefault(app, {})[f"{mode} {what}"] = count
        return figures

    def dropped(self) -> dict[str, int]:
        """Violations that no line tells of, by rule."""
        return dict(self._dropped)


def _who(client: ClientConnection) -> Who:
    library = client.library.decode("utf-8", "replace")
    if client.library_version:
        library = f"{library} {client.library_version.decode('utf-8', 'replace')}"
    name = client.name.decode("utf-8", "replace")
    user = client.key.user or "default"
    return (user[:_LONGEST_NAME], name[:_LONGEST_NAME], library[:_LONGEST_NAME], client.address)
