"""A limit on COUNT of SCAN, HSCAN, SSCAN and ZSCAN, which is the work of one step.

COUNT is a hint: the walk visits the same elements with any COUNT. So a policy may lower a COUNT over the limit in place
of refusing it.
"""

from dataclasses import dataclass

from proxy.commands.buckets import ends_bucket
from proxy.commands.command import Command
from proxy.commands.spans import SCANS, scan_count
from proxy.commands.spec import Spec
from proxy.rules.context import Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.lowering import Lowering
from proxy.rules.refusals import Refusals, over
from proxy.rules.rule import Binding, Rule, RuleSettings, Wording
from proxy.rules.verdict import PASS, Rewrite, Verdict


@dataclass(frozen=True, slots=True)
class ScanCountsSettings(RuleSettings):
    """The largest COUNT, and whether a larger one is lowered to it."""

    max: int
    lower: bool = False

    def bind(self, name: str, wording: Wording, binding: Binding) -> "ScanCounts":
        return ScanCounts(name, self, Refusals(name, wording, binding))


class ScanCounts(Rule):
    """One limit on the steps of walks."""

    def __init__(self, name: str, settings: ScanCountsSettings, refusals: Refusals) -> None:
        self.name = name
        self._settings = settings
        self._refusals = refusals

    def touches(self, spec: Spec) -> bool:
        return spec.name in SCANS

    def judge(self, command: Command, _context: Context) -> Verdict:
        """Refuse or lower a COUNT that is too large; else PASS."""
        most = self._settings.max
        found = scan_count(command)
        if found is None or found[0] <= most:
            return PASS
        count, index = found
        if self._settings.lower:
            argv = list(command.argv)
            argv[index] = b"%d" % most
            return Rewrite(argv, None, command.spec)
        why = f"the COUNT of {command.name} (argument {index}) is {count}, {over(count, most)}"
        return self._refusals.of(why, f"walk in steps of COUNT {most} or less", command)

    def most_in_page(self, _spec: Spec) -> int:
        return self._settings.max

    def judged_by(self, _spec: Spec) -> JudgedBy:
        return JudgedBy.FORM if ends_bucket(self._settings.max) else JudgedBy.NUMBERS

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """Without options there is no COUNT."""
        lowering.limit(arguments=SCANS[spec.name])
