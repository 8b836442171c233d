"""The apps of a learnt policy: evidence names clients by user, else by their folded client name.

An app of the policy in force keeps its name, as far as users or names tell its clients; the evidence does not say how
that policy recognises them. All others are clients of no app.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from proxy.policy.apps import UNKNOWN, App, Caller, Match, covers_text, identify
from proxy.policy.sections.rollout import DEFAULT
from proxy.policy_yaml.errors import Where
from proxy.schema.globs import LONGEST
from proxy.server.evidence.learn.entries import unique
from proxy.traffic.evidence_rows import Identity
from proxy.traffic.exemplars import PLACEHOLDER

_NO_USER_OF_ITS_OWN = ("", "default")
_LONGEST_LABEL = 64
"""Longer users and names are cut in the evidence, so these do not tell a client."""
_LONGEST_NAME = 50
_NO_NAME = re.compile(r"[^a-z0-9]+")
_STARS = re.compile(r"\*(?:[^A-Za-z0-9]*\*)*")
_APP = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?")


class _Told(NamedTuple):
    """What tells clients from others: a user, or a pattern of client names."""

    field: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Clients:
    """The apps, and the app in force whose clients each of them are."""

    apps: tuple[App, ...]
    formerly: Mapping[str, str]

    def app_of(self, who: Identity) -> App | None:
        """The app of a client; None for no app."""
        return identify(self.apps, Caller(who.user, who.name))

    def name_of(self, who: Identity) -> str:
        """The name of a client's app."""
        app = self.app_of(who)
        return UNKNOWN if app is None else app.name

    def that_may_be(self, who: Identity) -> tuple[str, ...]:
        """The apps that a client may be of which only the app in force is told; the client's own otherwise."""
        if not who.folded:
            return (self.name_of(who),)
        return (UNKNOWN, *(app.name for app in self.apps if self.formerly[app.name] == who.app))


def clients_of(weights: Mapping[Identity, int], most: int) -> Clients:
    """The apps of these clients, the heaviest first; `weights` counts their commands."""
    found: dict[_Told, Counter[str]] = {}
    for who, weight in weights.items():
        told = _told_by(who)
        if told is not None:
            found.setdefault(told, Counter())[who.app] += weight
    together: dict[tuple[str, str, str], list[_Told]] = {}
    for told in sorted(found, key=lambda told: -found[told].total()):
        former = found[told].most_common(1)[0][0]
        known = former != UNKNOWN and _APP.fullmatch(former) is not None
        together.setdefault((former, told.field, "" if known else told.pattern), []).append(told)
    apps, formerly, taken = [], {}, {UNKNOWN, DEFAULT}
    for (former, field, pattern), group in [*together.items()][:most]:
        name = _name_of(pattern or former, taken)
        formerly[name] = former
        apps.append(App(name, Where(""), match=_match_of(field, [told.pattern for told in group])))
    apps.sort(key=_generality)  # of those that match a client by its name, the first one is its app
    return Clients(tuple(apps), formerly)


def _match_of(field: str, patterns: Sequence[str]) -> Match:
    wide = [each for each in patterns if not any(each != other and covers_text(other, each) for other in patterns)]
    return Match(user=tuple(sorted(wide))) if field == "user" else Match(client_name=tuple(sorted(wide)))


def _generality(app: App) -> tuple[int, int]:
    return max(((each.count("*") - len(each), each.count("*")) for each in app.match.client_name), default=(0, 0))


def _told_by(who: Identity) -> _Told | None:
    if who.user not in _NO_USER_OF_ITS_OWN:
        return _Told("user", who.user) if _is_pattern(who.user) and not {"\\", "*"} & set(who.user) else None
    glob = _STARS.sub("*", PLACEHOLDER.sub("*", who.name))
    return _Told("client_name", glob) if _is_pattern(glob) and glob.strip("*") else None


def _is_pattern(text: str) -> bool:
    return bool(text) and len(text) < min(LONGEST, _LONGEST_LABEL) and text.isprintable()


def _name_of(text: str, taken: set[str]) -> str:
    """A name of an app that is not taken: this one, or one like it."""
    name = text if _APP.fullmatch(text) else _NO_NAME.sub("-", text.lower())[:_LONGEST_NAME].strip("-") or "app"
    return unique(name if name not in taken else name[:_LONGEST_NAME].strip("-_"), taken)
