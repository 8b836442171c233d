"""Large replies: counted, never refused.

The rule reads only the first line of a reply: it has the number of elements of an array, a set or a map (fields and
values of a map count separately, as in RESP2), or the number of bytes of a string. It does not read the elements, so
the streams of XREAD count, but not their entries.

Every command of this rule is judged and leaves the hot path. So GET is one only if the policy names it.
"""

from dataclasses import dataclass
from functools import partial

from proxy.commands.command import Command
from proxy.commands.rows import ROWS
from proxy.commands.spans import BYTE_SPANS, SPANS
from proxy.commands.spec import Spec
from proxy.commands.whole_collection_commands import READS
from proxy.rules.context import Context
from proxy.rules.lowering import Lowering
from proxy.rules.refusals import over
from proxy.rules.rule import Binding, Rule, RuleSettings, Wording
from proxy.rules.verdict import InspectReply, Verdict

LARGE_READS = tuple(sorted({*READS, *SPANS, *BYTE_SPANS, *(row.name for row in ROWS.values() if row.large_reply)}))
"""Commands that can have large replies."""


@dataclass(frozen=True, slots=True)
class RepliesSettings(RuleSettings):
    """The most elements and bytes that are not counted (None: no limit), and the commands."""

    elements: int | None = None
    bytes: int | None = None
    commands: tuple[str, ...] = LARGE_READS

    @property
    def beyond_acl(self) -> str:
        return "an ACL does not look at replies"

    def bind(self, name: str, _wording: Wording, _binding: Binding) -> "Replies":
        return Replies(name, self)


class Replies(Rule):
    """One standard for the size of replies."""

    def __init__(self, name: str, settings: RepliesSettings) -> None:
        self.name = name
        self._settings = settings
        self._inspect_reply = InspectReply(partial(_notice, settings))

    def touches(self, spec: Spec) -> bool:
        return spec.name in self._settings.commands

    def judge(self, _command: Command, _context: Context) -> Verdict:
        return self._inspect_reply

    def lower(self, _spec: Spec, lowering: Lowering) -> None:
        """Everything is judged: a plan does not read replies."""
        lowering.judge()


def _notice(settings: RepliesSettings, line: bytes) -> str:
    kind, digits = line[:1], line[1:-2]
    size = int(digits) if digits.isdigit() else 0
    if kind in (b"$", b"="):
        most, unit = settings.bytes, "bytes"
    elif kind in (b"*", b"~", b"%"):
        most, unit = settings.elements, "elements"
        size *= 2 if kind == b"%" else 1
    else:
        return ""
    return "" if most is None or size <= most else f"the reply has {size} {unit}, {over(size, most)}"
