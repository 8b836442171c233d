"""What an ACL can say about a tenant: a Redis user whose clients are of one app may use its keys and channels alone.

Redis knows no tenants, so all names get the prefix here: the rights of an app are about the names that its clients use.

- A pattern of PSUBSCRIBE must stand in the ACL to the letter, where keys and channels are compared with patterns. So of
  the patterns that tenants may subscribe to, Redis allows the one for all of their channels. This is narrower than the
  policy, and each such place is listed.
- Redis limits SCAN and others to no keys: they are listed as wider.
"""

from collections.abc import Iterator
from typing import NamedTuple

from proxy.commands.sort_patterns import SORTS
from proxy.commands.tenant_commands import Offer, ReplyNames, RequestNames, ScriptTerms, decision_of, scripts_offered
from proxy.policy.acl.keys import KeyPattern, KeyRights, Patterns
from proxy.policy.acl.own_commands import OWN_KEYS
from proxy.policy.tenants import Tenants
from proxy.tenants.messages import OF_THE_SERVER

UNLIMITED = "Redis limits it to no keys and channels: it tells of all"
ANY_LISTENER = "Redis cannot tell at which listener a client is, so keys of other listeners match, too"
_INVALIDATIONS = KeyPattern(b"__redis__:invalidate", "__redis__:invalidate")
_ABOUT_ALL = frozenset(
    {
        RequestNames.ANY_KEY,
        RequestNames.COUNT,
        RequestNames.SCAN,
        RequestNames.SHOWN_CHANNELS,
        RequestNames.SLOT,
        RequestNames.TRACKING,
    }
)


class Narrower(NamedTuple):
    """Commands that Keyrail passes, and Redis may not; and why an ACL cannot say it."""

    commands: tuple[str, ...]
    why: str


def is_denied(name: str, scripts: ScriptTerms) -> bool:
    """Whether tenants may not send the command, or Redis never gets it from them: for KEYS, Keyrail walks by SCAN."""
    offer = decision_of(name, scripts)
    return not isinstance(offer, Offer) or offer.request is RequestNames.PATTERN


def is_about_all(name: str) -> bool:
    """Whether Keyrail limits the command to the tenant's own names, and Redis to none."""
    offer = decision_of(name)
    if not isinstance(offer, Offer):
        return False
    return offer.request in _ABOUT_ALL or offer.reply in (ReplyNames.SECTIONS, ReplyNames.PAIRS)


def prefix_of(tenants: Tenants, app: str, user: str) -> KeyPattern | None:
    """The names of the app's clients that log in as this user, as Redis has them; None if they have none. Redis does
    not tell at which listener they are: any may stand there."""
    names = {"app": app, "user": user, "listener": "*"}
    if any(tenants.problem_of(kind, names[kind]) for kind in ("app", "user")):
        return None
    glob = "".join(piece.text + names.get(piece.name, "") for piece in tenants.pieces)
    return KeyPattern(glob.partition("*")[0].encode("ascii"), glob + "*")


def keys_behind(prefix: KeyPattern | None, keys: KeyRights) -> KeyRights:
    """The keys as Redis has them."""
    return KeyRights(_behind(prefix, keys.written), _behind(prefix, keys.read))


def channels_behind(prefix: KeyPattern | None) -> tuple[KeyPattern, ...]:
    """The channels as Redis has them, with those on which it tells of these keys in the first 100 databases (a star
    there would match names of other keys), and those of Keyrail itself: its WAIT sends a message."""
    if prefix is None:
        return ()
    spaces = ("__keyspace@?__:", "__keyspace@??__:")
    told = (KeyPattern(b"__keyspace@", each + prefix.glob) for each in spaces)
    return (prefix, *told, _INVALIDATIONS, KeyPattern.of_prefix(OWN_KEYS))


def narrower(channels: Patterns, scripts: ScriptTerms, *, sorts: bool) -> Iterator[Narrower]:
    """Where the rights of a user with these channels are narrower than the policy. `sorts`: SORT may read any key."""
    if not channels:
        return
    others = (*OF_THE_SERVER, OWN_KEYS)
    exact = (each.beginning.decode() for each in channels if each.is_prefix and not each.beginning.startswith(others))
    own = next(exact, "PREFIX")
    if not sorts:
        yield Narrower(tuple(sorted(SORTS)), "Redis takes BY and GET only from who may read all keys")
    literal = f"Redis takes only a pattern that the ACL has to the letter: for news.* of clients, add &{own}news.*"
    yield Narrower(("PSUBSCRIBE",), literal)
    yield Narrower(("SUBSCRIBE",), "channels of __keyevent tell of the keys of all, so they are not allowed")
    if scripts is ScriptTerms.TRUST:
        runs = (name for name in scripts_offered(scripts) if "|" not in name)
        yield Narrower(tuple(sorted(runs)), "scripts may use the commands and keys of the tenant alone")


def _behind(prefix: KeyPattern | None, patterns: Patterns) -> tuple[KeyPattern, ...]:
    if prefix is None:
        return ()
    if patterns is None:
        return (prefix,)
    return tuple(_joined(prefix, each) for each in patterns)


def _joined(prefix: KeyPattern, own: KeyPattern) -> KeyPattern:
    # Where the prefix has a star, the bytes of the beginning end there.
    glob = prefix.glob.removesuffix("*") + own.glob
    exact = prefix.is_prefix
    return KeyPattern(prefix.beginning + own.beginning if exact else prefix.beginning, glob)
