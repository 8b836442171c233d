"""Which of Redis's numbered databases clients may use.

SELECT chooses a database, MOVE and COPY … DB write into another, SWAPDB exchanges two. MIGRATE writes into a database
of the server that it names, which may be this Redis itself, so its number counts, too. A number must have Redis's own
form (``3``, not ``03``); Redis accepts no other form either. The database in which clients start is a setting of the
route.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from proxy.commands.command import Command
from proxy.commands.row import NamedDatabase
from proxy.commands.rows import ROWS
from proxy.commands.table import Spec
from proxy.commands.words import word_of
from proxy.rules.context import Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.lowering import Lowering
from proxy.rules.refusals import Refusals
from proxy.rules.rule import BY_APP, Binding, InScripts, Needs, Rule, RuleSettings, Wording, takes
from proxy.rules.verdict import PASS, Verdict

_NAMED_BY = {row.name: row.databases for row in ROWS.values() if row.databases is not None}
_LONGEST_NUMBER = 20


@dataclass(frozen=True, slots=True)
class DatabasesSettings(RuleSettings):
    """The allowed databases."""

    allowed: tuple[int, ...]

    @property
    def takes(self) -> frozenset[str]:
        """SELECT has no keys."""
        return BY_APP

    @property
    def beyond_acl(self) -> str:
        return "an ACL knows no databases (from Valkey 9.1 on it may: db=)"

    def bind(self, name: str, wording: Wording, binding: Binding) -> "Databases":
        return Databases(name, self, wording, binding)


class Databases(Rule):
    """Refuses commands that name another database."""

    needs = Needs(in_scripts=InScripts.COMMANDS)

    def __init__(self, name: str, settings: DatabasesSettings, wording: Wording, binding: Binding) -> None:
        self.name = name
        self._refusals = Refusals(name, wording, binding)
        self._allowed = frozenset(b"%d" % number for number in settings.allowed)
        self._shown = ", ".join(map(str, sorted(settings.allowed)))
        self._named = {spec.id: _NAMED_BY[spec.name] for spec in binding.table.specs if spec.name in _NAMED_BY}

    def touches(self, spec: Spec) -> bool:
        """The commands that can name a database."""
        return spec.id in self._named

    def judge(self, command: Command, _context: Context) -> Verdict:
        """Refuse a database that is not allowed; PASS a command with a number of arguments that Redis refuses."""
        if not takes(command.spec, len(command.argv)):
            return PASS
        named = _named(command.argv, self._named[command.spec.id])
        others = [number for number in named if number not in self._allowed]
        if not others:
            return PASS
        number = others[0][:_LONGEST_NUMBER].decode("ascii", "replace")
        why = f"{command.name} names database {number}, and this policy allows {self._shown}"
        return self._refusals.of(why, f"use database {self._shown}", command)

    def refuses_part(self, _command: Command) -> bool:
        """Whether a request that begins like this one may be refused."""
        return True

    def judged_by(self, spec: Spec) -> JudgedBy:
        return JudgedBy.DATA if spec.name == "MIGRATE" else JudgedBy.NUMBERS

    def lower(self, _spec: Spec, lowering: Lowering) -> None:
        """Everything is judged: these commands are rare."""
        lowering.judge()


def _named(argv: Sequence[bytes], by: NamedDatabase) -> Sequence[bytes]:
    if not by.option:
        return argv[by.first : by.first + by.arguments]
    return [number for option, number in pairwise(argv[by.first :]) if word_of(option) == by.option]
