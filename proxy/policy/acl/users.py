"""Which apps of a policy are which users of Redis.

A user that an app names without a star is a user of its own. Clients of all other apps, and of none, are the user that
Keyrail itself logs in as: Redis sees no difference between them. Where clients do not log in to Redis, all are that
user, so it may do what any app may.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from proxy.policy.acl.keys import KeyPattern
from proxy.policy.acl.own_commands import AS_KEYRAIL, OWN_KEYS
from proxy.policy.acl.rights import AppRights, Rights, Wider, may_act
from proxy.policy.acl.tenants import Narrower
from proxy.policy.acl.versions import Version, table_with_made_up_commands
from proxy.policy.acl.words import words_elsewhere, words_of
from proxy.policy.apps import App, Match, matches_one
from proxy.policy.compile import PolicyCompiler
from proxy.policy.model import Policy, PolicyRule
from proxy.policy.precedence import effective_mode, spent

_NO_APP = ""
_BY_KEYRAIL = "Keyrail sends it as this user"


@dataclass(frozen=True, slots=True)
class AclUser:
    """One user: the apps whose clients it has ("" stands for clients of no app), and its rules as `words`.

    `elsewhere` are further words, for a Redis that has more commands: modules, or a later version.
    """

    name: str
    apps: tuple[str, ...]
    words: tuple[str, ...]
    elsewhere: tuple[str, ...]
    wider: tuple[Wider, ...]
    narrower: tuple[Narrower, ...]


@dataclass(frozen=True, slots=True)
class Acl:
    """All users, Keyrail's own login first; what Redis cannot tell about apps, in words, and the rules that are not
    enforced for anyone."""

    users: tuple[AclUser, ...]
    untold: tuple[str, ...]
    not_enforced: tuple[str, ...]


def acl_of(policy: Policy, version: Version, now: float, login: str = "default", *, scripts_too: bool = False) -> Acl:
    """The users that back a policy up. `login` is the user in `--upstream`; with `scripts_too`, scripts are denied
    what clients are. `now` (seconds since the epoch) tells which exceptions are over."""
    over = spent(policy, now)
    policy = replace(policy, exceptions=tuple(each for each in policy.exceptions if each not in over))
    maker = _Maker(policy, version, scripts_too)
    named = dict.fromkeys(name for app in policy.apps for name in app.match.user if _is_name(name) and name != login)
    untold = tuple(text for app in policy.apps if (text := _untold(app)))
    lax = tuple(rule.name for rule in policy.rules if not _is_enforced(policy, rule))
    return Acl((maker.login(login), *map(maker.user, named)), untold, lax)


def candidates(apps: Sequence[App], user: str) -> tuple[str, ...]:
    """The apps that a client of this user may be of, by what else is true of it; "" stands for none. Of several that
    match, the first one counts, as in ``apps.identify``."""
    found = []
    for app in sorted(apps, key=lambda app: (not app.proven, -app.match.conditions)):
        if matches_one(app.match.user, user):
            found.append(app.name)
            if app.match == Match(user=app.match.user):
                return tuple(found)
    return (*found, _NO_APP)


class _Maker:
    """Makes users from the rights of each app."""

    def __init__(self, policy: Policy, version: Version, scripts_too: bool) -> None:
        table, made_up = table_with_made_up_commands()
        self._policy = policy
        self._version = version
        self._finder = AppRights(version, table, made_up)
        compiler = PolicyCompiler(policy, table)
        proven = frozenset(app.name for app in policy.apps if app.proven)
        apps: Mapping[str, App | None] = {**{app.name: app for app in policy.apps}, _NO_APP: None}
        self._rights = {
            name: self._finder.of(compiler.bind(app), proven, name, scripts_too) for name, app in apps.items()
        }

    def user(self, name: str) -> AclUser:
        """A user as whom clients log in to Redis."""
        apps = candidates(self._policy.apps, name)
        return self._made(name, apps, self._joined(name, apps))

    def _joined(self, user: str, apps: Iterable[str]) -> Rights:
        tenants = self._policy.tenants
        by_app = {app: self._finder.as_user(self._rights[app], tenants, app, user) for app in apps}
        return self._finder.joined(by_app, tenants.terms.scripts)

    def login(self, name: str) -> AclUser:
        """The user that Keyrail logs in as."""
        rights = self._joined(name, self._rights)
        keys = rights.keys
        if keys.read is not None:
            keys = replace(keys, read=(*keys.read, KeyPattern.of_prefix(OWN_KEYS)))
        if not self._version.selectors:
            keys = keys.alike()
        denied = {command: rule for command, rule in rights.denied.items() if command not in AS_KEYRAIL}
        wider = (*rights.wider, *self._sent(rights))
        return self._made(name, tuple(self._rights), replace(rights, denied=denied, keys=keys, wider=wider))

    def _sent(self, rights: Rights) -> Iterator[Wider]:
        sent = {name: rule for name, rule in rights.denied.items() if name in AS_KEYRAIL & self._finder.present}
        for rule in dict.fromkeys(sent.values()):
            yield Wider(rule, tuple(name for name, by in sent.items() if by == rule), _BY_KEYRAIL)

    def _made(self, name: str, apps: tuple[str, ...], rights: Rights) -> AclUser:
        elsewhere = words_elsewhere(rights, self._version)
        return AclUser(name, apps, words_of(rights, self._version), elsewhere, rights.wider, rights.narrower)


def _is_name(user: str) -> bool:
    """Whether the pattern is the name of one user, which an ACL can have."""
    return "*" not in user and user.isprintable() and not set(user) & set(" \"'\\")


def _untold(app: App) -> str:
    """What Redis cannot tell about an app's clients; empty if it can tell them by their user."""
    match = app.match
    said = ("user pattern", "client name", "listener", "certificate")
    told = [what for what, patterns in zip(said[1:], match.patterns[1:], strict=True) if patterns]
    told += ["address"] if match.address else []
    if not all(map(_is_name, match.user)):
        told = [said[0], *told]
    return f"{app.name}: Redis cannot tell its clients by their {' and '.join(told)}" if told else ""


def _is_enforced(policy: Policy, rule: PolicyRule) -> bool:
    """Whether it is enforced for some client."""
    modes = (effective_mode(policy, rule, app, paused=False) for app in (None, *policy.apps))
    return any(may_act(each) for each in modes)
