"""A limit on the length of range reads, from their arguments alone.

``LRANGE k 0 99`` asks for a hundred elements. ``LRANGE k 0 -1`` and XRANGE without COUNT ask for all elements. These
are refused, unless the policy leaves endless ranges to ``whole_collections``, which looks the size up.
"""

from dataclasses import dataclass

from proxy.commands.buckets import ends_bucket
from proxy.commands.command import Command
from proxy.commands.spans import BYTE_SPANS, ENDLESS, SPANS, bytes_asked, elements_asked
from proxy.commands.spec import Spec
from proxy.rules.context import Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.lowering import Lowering
from proxy.rules.refusals import Refusals, over
from proxy.rules.rule import Binding, Rule, RuleSettings, Wording
from proxy.rules.verdict import PASS, Verdict


@dataclass(frozen=True, slots=True)
class RangesSettings(RuleSettings):
    """The most elements of a range, the most bytes of a part of a string (None: any), whether ranges may be endless."""

    max: int
    bytes: int | None = None
    endless: bool = False

    @property
    def hinders_queues(self) -> bool:
        return True  # bee-queue takes up to 1000 jobs at once

    def bind(self, name: str, wording: Wording, binding: Binding) -> "Ranges":
        return Ranges(name, self, Refusals(name, wording, binding))


class Ranges(Rule):
    """One standard for the length of spans."""

    def __init__(self, name: str, settings: RangesSettings, refusals: Refusals) -> None:
        self.name = name
        self._settings = settings
        self._refusals = refusals

    def touches(self, spec: Spec) -> bool:
        """LRANGE, ZRANGE, XRANGE and similar commands; GETRANGE if bytes are limited."""
        return spec.name in SPANS or (self._settings.bytes is not None and spec.name in BYTE_SPANS)

    def judge(self, command: Command, _context: Context) -> Verdict:
        """Refuse a range that is too long or endless; else PASS."""
        settings = self._settings
        if settings.bytes is not None and command.spec.name in BYTE_SPANS:
            return self._judge_span(command, bytes_asked(command), settings.bytes, "bytes")
        return self._judge_span(command, elements_asked(command), settings.max, "elements")

    def _judge_span(self, command: Command, asked: int | None, most: int, unit: str) -> Verdict:
        if asked is None or asked <= most or (asked >= ENDLESS and self._settings.endless):
            return PASS
        of_what = f" of {self._refusals.key(command, command.keys[0].index)}" if len(command.keys) == 1 else ""
        if asked >= ENDLESS:
            why = f"{command.name} asks for all {unit}{of_what}, and the limit is {most}"
        else:
            why = f"{command.name} asks for up to {asked} {unit}{of_what}, {over(asked, most)}"
        return self._refusals.of(why, f"ask for at most {most} {unit} at a time", command)

    def judged_by(self, spec: Spec) -> JudgedBy:
        limit = self._settings.bytes if spec.name in BYTE_SPANS else self._settings.max
        return JudgedBy.FORM if ends_bucket(limit) else JudgedBy.NUMBERS

    def lower(self, _spec: Spec, lowering: Lowering) -> None:
        """Everything is judged: a plan does not read these numbers."""
        lowering.judge()
