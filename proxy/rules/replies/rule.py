"""Replies that are larger than a team wants them: noticed and counted, never held back.

Only the first line of a reply is looked at: it tells how many elements an array, a set or a map has (the fields and the
values of a map count each, as they do in RESP2), or how many bytes a string has. What is inside the elements is not
seen, so the streams of XREAD are counted and their entries are not.

Every command that is looked at is judged, which costs it the hot path. So GET is looked at only where it is named.
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
"""Commands that can be answered by much."""


@dataclass(frozen=True, slots=True)
class RepliesSettings(RuleSettings):
    """The most elements and bytes that go unnoticed (None: any), and the commands whose replies are looked at."""

    elements: int | None = None
    bytes: int | None = None
    commands: tuple[str, ...] = LARGE_READS

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
        """No plan looks at replies."""
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
