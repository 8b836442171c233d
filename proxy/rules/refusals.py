"""The errors of refused commands, in one form for all rules.

    DENIED keyrail/RULE: WHAT, and BECAUSE; INSTEAD; contact: WHOM; if this is LIBRARY, exempt it with …

WHAT names the argument by its key, as the policy's ``redact`` allows, and by its index, since a reader of the error may
not have written the command. BECAUSE and INSTEAD are the policy author's words, if there are any. The contact is that
of the key's owner in the schema, else of the rule's owner. No line is longer than `LONGEST` bytes.

Libraries branch on the errors to the commands that they send while they connect: after ``NOPERM`` for INFO or CLIENT
SETINFO they continue without it, after any other error they may never get ready. So refusals of these few commands have
Redis's own text, and only the counters name the rule.
"""

from proxy.commands.command import Command
from proxy.commands.overlay import HANDSHAKE
from proxy.commands.rows import ROWS
from proxy.commands.spec import Spec
from proxy.commands.words import word_of
from proxy.rules.known_libraries import library_of
from proxy.rules.rule import Binding, Wording
from proxy.rules.verdict import Refuse
from proxy.schema.entries import Owner
from proxy.wire.encode import encode_error

LONGEST = 1200
"""The most bytes of an error, without its CRLF."""
_LONGEST_NAME = 64
"""The most characters of a key or a subcommand."""
_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_CONTAINERS = frozenset(row.name.encode() for row in ROWS.values() if row.tried_subcommands)


class Refusals:
    """The refusals of one rule."""

    def __init__(self, rule: str, wording: Wording, binding: Binding) -> None:
        self.rule = rule
        self.wording = wording
        self._binding = binding

    def of(
        self,
        why: str,
        instead: str,
        command: Command | None = None,
        *,
        owner: Owner = None,
        retry: float | None = None,
        reason: bool = True,
        cause: str = "",
    ) -> Refuse:
        """A refusal. `instead` is used if the author gives no words.

        `owner` is the schema entry of the faulty key; `retry` is the number of seconds after which the command may
        pass. Without `reason`, `why` already has the author's reason. `cause` is
        the rule that this one follows, if it is not its own.
        """
        because = f", and {self.wording.because}" if reason and self.wording.because else ""
        parts = [f"DENIED keyrail/{self.rule}: {why}{because}", self.wording.instead or instead]
        if retry is not None:
            parts.append(f"retry after {max(1, round(retry * 1000))} ms")
        hint = "" if command is None else self._exemption(command, cause)
        parts += [self._contact(owner), "" if hint == instead else hint]  # what another rule says may end with it
        return Refuse(encode_error(_cut("; ".join(filter(None, parts)).translate(_ONE_LINE))))

    def of_any(self, spec: Spec, why: str, instead: str, *, reason: bool = True) -> Refuse:
        """The refusal of any request of a known command."""
        if spec.name in HANDSHAKE:
            return Refuse(encode_error(f"NOPERM this user has no permissions to run the '{spec.name.lower()}' command"))
        return self.of(why, instead, reason=reason)

    def of_unknown(self, command: Command, why: str, instead: str, *, reason: bool = True) -> Refuse:
        """The refusal of an unknown command, or of an unknown subcommand of CLIENT or another container."""
        container = word_of(command.argv[0])
        if container in _CONTAINERS and len(command.argv) > 1:
            name = command.argv[1][:_LONGEST_NAME].decode("ascii", "replace")
            return Refuse(encode_error(f"ERR unknown subcommand '{name}'. Try {container.decode()} HELP."))
        return self.of(why, instead, reason=reason)

    def key(self, command: Command, index: int, what: str = "key") -> str:
        """The key or pattern in an argument, in words: ``the key 'user:1' (argument 1 of GET)``."""
        whole = command.length(index) == len(command.argv[index])
        name = f" {self.shown(command.argv[index])}" if whole else ""
        return f"the {what}{name} (argument {index} of {command.name})"

    def shown(self, key: bytes) -> str:
        """A key as the policy's ``redact`` allows, in quotes."""
        return quoted(self._binding.show_key(key))

    def _contact(self, owner: Owner) -> str:
        contact = "" if owner is None else self._binding.contacts.get(owner.app, "")
        contact = contact or self.wording.contact
        return f"contact: {contact}" if contact else ""

    def _exemption(self, command: Command, cause: str) -> str:
        exemptions = self._binding.exemptions
        possible = cause in exemptions.possible if cause else self._binding.may_exempt
        library = library_of(command) if possible else None
        return "" if library is None else exemptions.hint(library, cause or self.rule)


def quoted(shown_key: str) -> str:
    """A key as errors quote it."""
    return f"'{shown_key if len(shown_key) <= _LONGEST_NAME else shown_key[:_LONGEST_NAME] + '…'}'"


_ONE_LINE = dict.fromkeys([*range(32), 127, 0x85, 0x2028, 0x2029], " ")


def _cut(text: str) -> str:
    data = text.encode("utf-8", "replace")
    return text if len(data) <= LONGEST else data[: LONGEST - 3].decode("utf-8", "ignore") + "…"


def over(value: int, most: int) -> str:
    """By how much a number is too large: ``3 more than the limit of 10``."""
    return f"{value - most} more than the limit of {most}"


def under(value: int, least: int) -> str:
    """By how much a number is too small."""
    return f"{least - value} less than the minimum of {least}"


def shown_time(milliseconds: int) -> str:
    """A time as policies write it: ``90ms``, ``5m``, ``2h46m39s``."""
    seconds, rest = divmod(milliseconds, 1000)
    parts = []
    for unit, letter in _UNITS:
        count, seconds = divmod(seconds, unit)
        if count:
            parts.append(f"{count}{letter}")
    return "".join(parts) + (f"{rest}ms" if rest or not parts else "")
