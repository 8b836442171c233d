"""The tenants of a policy: apps whose clients see only their own keys, each behind a prefix.

    tenants: {prefix: "${REGION}:{app}:", apps: [acme, globex]}

No tenant's prefix begins another's. Behind each name in a prefix (an app, a user, a listener) stands a character that
this name may not have: where two prefixes differ in a name, they differ before either of them ends.
"""

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from proxy.commands.tenant_commands import EMPTYING, ScriptTerms
from proxy.policy_yaml.errors import Where
from proxy.rules.key_walk import WalkBudget
from proxy.rules.one_key import OneKey
from proxy.schema.expressions import ANY_BYTE, Chain, Expression, OneOf, Repeated, byte_set, text
from proxy.tenants.messages import OF_THE_SERVER

TEXT = r"[A-Za-z0-9_.:/@+=,~|#-]"
"""A character of a prefix: none that a pattern of keys, a slot of a cluster or a line of text gives a meaning."""
_LONGEST_NAME = 128
_NAME = re.compile(f"{TEXT}{{1,{_LONGEST_NAME}}}")
NAMES = ("app", "user", "listener")
TENANTS = "tenants"
"""What tests of a policy call the refusal of a command that is not offered to tenants, in place of a rule."""


class Piece(NamedTuple):
    """Text, and the name that follows it: one of NAMES, or nothing."""

    text: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class TenantTerms:
    """What clients of all tenants may do: which of their `scripts` run. KEYS, DBSIZE and RANDOMKEY `walk` over a
    tenant's keys within this budget; DBSIZE may tell a count of at most `count_age` seconds. `flushes`: FLUSHDB deletes
    the tenant's keys in a walk."""

    scripts: ScriptTerms = ScriptTerms.JUDGE
    walk: WalkBudget = field(default_factory=WalkBudget)
    count_age: int = 60
    flushes: bool = False


class Tenant(NamedTuple):
    """A tenant, as its clients' commands need it. With a `problem`, its name cannot be part of a prefix, and nothing
    with a key goes on."""

    prefix: bytes
    problem: str = ""
    terms: TenantTerms = TenantTerms()

    @property
    def scripts(self) -> ScriptTerms:
        """Which of its scripts run."""
        return self.terms.scripts

    def empties(self, command: str) -> bool:
        """Whether Keyrail deletes its keys in place of the command of this name."""
        return self.terms.flushes and command in EMPTYING

    def sees_as(self, other: "Tenant | None") -> bool:
        """Whether both have the same keys."""
        return other is not None and self[:2] == other[:2]


@dataclass(frozen=True, slots=True)
class Tenants:
    """The apps that are tenants, and of what their prefix consists. Without apps there are none."""

    pieces: tuple[Piece, ...] = ()
    apps: frozenset[str] = frozenset()
    terms: TenantTerms = TenantTerms()
    where: Where = field(default_factory=lambda: Where(""))

    def __bool__(self) -> bool:
        return bool(self.apps)

    def of(self, app: str, user: str, listener: str) -> Tenant | None:
        """The tenant of a client; None if it is of none."""
        if app not in self.apps:
            return None
        names = {"app": app, "user": user, "listener": listener}
        for kind in NAMES:
            problem = self.problem_of(kind, names[kind])
            if problem:
                return Tenant(b"", f"its {kind} cannot be part of the tenant's prefix: {problem}")
        prefix = "".join(piece.text + names.get(piece.name, "") for piece in self.pieces).encode("ascii")
        if any(each.startswith(prefix) or prefix.startswith(each) for each in OF_THE_SERVER):
            return Tenant(b"", f"its prefix, {prefix.decode()}, may begin channels on which Redis itself sends")
        return Tenant(prefix, terms=self.terms)

    @property
    def prefixes(self) -> Expression | None:
        """A language with the prefixes of all tenants, and more: any text that may end there counts as a name. None if
        there are no tenants."""
        if not self:
            return None
        parts: list[Expression] = []
        for piece, after in pairwise((*self.pieces, Piece(""))):
            parts.append(text(piece.text.encode("ascii")))
            if piece.name:
                parts.append(Repeated(OneOf(ANY_BYTE & ~byte_set(after.text[:1].encode("ascii")))))
        return Chain(tuple(parts))

    def ends_of(self, kind: str) -> list[str]:
        """The characters that end a name of this kind in the prefix."""
        return [after.text[0] for before, after in pairwise(self.pieces) if before.name == kind]

    def problem_of(self, kind: str, name: str) -> str:
        """Why a name of this kind cannot be part of the prefix; empty if it can, or need not."""
        ends = self.ends_of(kind)
        if ends and not _NAME.fullmatch(name):
            return "it needs 1 to 128 letters, digits and characters of _.:/@+=,~|#-"
        return next((f"it has '{end}', which ends it there" for end in ends if end in name), "")


NO_TENANTS = Tenants()


class _Part(NamedTuple):
    text: bytes
    name: str
    end: bytes
    """The character that ends the name."""


class OwnName(NamedTuple):
    """A stored key as its tenant names it, and the tenant's app; "" if the prefix does not tell which."""

    name: bytes
    app: str


class StoredNames:
    """Tells which stored keys are of tenants, by how they begin."""

    def __init__(self, tenants: Tenants) -> None:
        self._tenants = tenants
        self._apps = {app.encode("ascii") for app in tenants.apps}
        self._parts = [
            _Part(piece.text.encode("ascii"), piece.name, after.text[:1].encode("ascii"))
            for piece, after in pairwise((*tenants.pieces, Piece("")))
        ]

    def own(self, stored: bytes) -> OwnName | None:
        """The key without its prefix; None for one of no tenant."""
        at, names = 0, dict[str, bytes]()
        for part in self._parts:
            if not stored.startswith(part.text, at):
                return None
            at += len(part.text)
            if part.name:
                end = stored.find(part.end, at, at + _LONGEST_NAME + 1)
                if end < 0 or names.setdefault(part.name, stored[at:end]) != stored[at:end]:
                    return None
                at = end
        if not self._parts or not all(map(self._may_be, names, names.values())):
            return None
        app = names["app"].decode("ascii") if "app" in names else next(iter(self._tenants.apps), "")
        return OwnName(stored[at:], app if "app" in names or len(self._apps) == 1 else "")

    def one_key(self, stored: bytes) -> OneKey:
        """The key for a rule, which tells it by the names that clients know."""
        own = self.own(stored)
        return OneKey(stored, None if own is None else own.name)

    def can_name(self, app: str, stored: bytes) -> bool:
        """Whether clients of this app may know the key by some name."""
        if app not in self._tenants.apps:
            return True
        own = self.own(stored)
        return own is not None and own.app in ("", app)

    def _may_be(self, kind: str, name: bytes) -> bool:
        if kind == "app":
            return name in self._apps
        return not self._tenants.problem_of(kind, name.decode("latin-1"))
