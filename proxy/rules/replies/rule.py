"""Large replies: counted, never refused.

The rule reads only the first line of a reply: it has the number of elements of an array, a set or a map (fields and
values of a map count separately, as in RESP2), or the number of bytes of a string. It does not read the elements, so
the streams of XREAD count, but not their entries.

A command of this rule is judged and leaves the hot path, unless its reply surely has few elements. So GET is one only
if the policy names it.
"""

from dataclasses import dataclass
from functools import partial

from proxy.commands.command import Command
from proxy.commands.row import AS_ARGUMENTS
from proxy.commands.rows import ROWS
from proxy.commands.spans import BYTE_SPANS, SPANS
from proxy.commands.spec import Spec
from proxy.commands.whole_collection_commands import READS
from proxy.rules.context import Context
from proxy.rules.lowering import Lowering
from proxy.rules.plan_checks import UNLIMITED
from proxy.rules.refusals import over
from proxy.rules.rule import Binding, Rule, RuleSettings, Wording
from proxy.rules.verdict import PASS, InspectReply, Verdict

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

    def judge(self, command: Command, _context: Context) -> Verdict:
        small = command.streamed is None and len(command.argv) <= self._small(command.spec)
        return PASS if small else self._inspect_reply

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """A plan does not read replies, so it passes only what has a small one."""
        arguments = self._small(spec)
        if not arguments:
            lowering.judge()
        elif arguments < UNLIMITED:
            lowering.limit(arguments=arguments)

    def _small(self, spec: Spec) -> int:
        # With so many arguments, its name included, the command has no reply that counts.
        most = UNLIMITED if self._settings.elements is None else self._settings.elements
        row = ROWS.get(spec.name)
        if row is None or row.reply_elements is None:
            return 0
        if row.reply_elements == AS_ARGUMENTS:
            return most
        return UNLIMITED if row.reply_elements <= most else 0


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
