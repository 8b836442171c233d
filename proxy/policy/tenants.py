"""The tenants of a policy: apps whose clients see only their own keys, each behind a prefix.

    tenants: {prefix: "${REGION}:{app}:", apps: [acme, globex]}

No tenant's prefix begins another's. Behind each name in a prefix (an app, a user, a listener) stands a character that
this name may not have: where two prefixes differ in a name, they differ before either of them ends.
"""

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from proxy.policy_yaml.errors import Where

TEXT = r"[A-Za-z0-9_.:/@+=,~|#-]"
"""A character of a prefix: none that a pattern of keys, a slot of a cluster or a line of text gives a meaning."""
_NAME = re.compile(f"{TEXT}{{1,128}}")
NAMES = ("app", "user", "listener")


class Piece(NamedTuple):
    """Text, and the name that follows it: one of NAMES, or nothing."""

    text: str
    name: str = ""


class Tenant(NamedTuple):
    """A tenant, as its clients' commands need it. With a `problem`, its name cannot be part of a prefix, and nothing
    with a key goes on. `trusts_scripts`: its scripts are said to use no keys but those that they declare."""

    prefix: bytes
    problem: str = ""
    trusts_scripts: bool = False


@dataclass(frozen=True, slots=True)
class Tenants:
    """The apps that are tenants, and of what their prefix consists. Without apps there are none."""

    pieces: tuple[Piece, ...] = ()
    apps: frozenset[str] = frozenset()
    trusts_scripts: bool = False
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
        prefix = "".join(piece.text + names.get(piece.name, "") for piece in self.pieces)
        return Tenant(prefix.encode("ascii"), trusts_scripts=self.trusts_scripts)

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


class OwnName(NamedTuple):
    """A stored key as its tenant names it, and the tenant's app; "" if the prefix does not tell which."""

    name: bytes
    app: str


class StoredNames:
    """Tells which stored keys are of tenants, by how they begin."""

    def __init__(self, tenants: Tenants) -> None:
        self._begins = re.compile(_pattern(tenants)) if tenants else None
        self._app = next(iter(tenants.apps)) if len(tenants.apps) == 1 else ""

    def own(self, stored: bytes) -> OwnName | None:
        """The key without its prefix; None for one of no tenant."""
        found = None if self._begins is None else self._begins.match(stored)
        if found is None:
            return None
        app = found.groupdict().get("app")
        return OwnName(stored[found.end() :], self._app if app is None else app.decode("ascii"))


def _pattern(tenants: Tenants) -> bytes:
    text, seen = "", set[str]()
    for piece in tenants.pieces:
        text += re.escape(piece.text)
        if piece.name in seen:
            text += f"(?P={piece.name})"
        elif piece.name:
            seen.add(piece.name)
            ends = "".join(map(re.escape, tenants.ends_of(piece.name)))
            apps = "|".join(map(re.escape, sorted(tenants.apps)))
            text += f"(?P<{piece.name}>{apps if piece.name == 'app' else f'(?:(?![{ends}]){TEXT}){{1,128}}'})"
    return text.encode("ascii")
