"""The applications of a policy, and how their clients are recognised.

    apps:
      checkout: {team: checkout, contact: "#checkout", match: {user: [checkout, "checkout-*"]}}
      legacy:   {team: shop, match: {address: [10.1.4.0/24, "fd00:4::/64"]}}
      reports:  {team: data, match: {client_name: "spark-*"}}

A client cannot choose the user that Redis has accepted, its listener, its certificate and the address that its packets
come from: these are *proven*. A client name is only *claimed*: any client can set it. So an app that is matched by a
client name only counts its clients, or judges them more strictly, never more mildly. An address proves the network that
a client is in, and not which program there it is. A client that matches no app is counted as "unknown".

All conditions of `match` must be true, and each of one value of its list. If several apps match, a proven one goes
first, then the one with more conditions, then the first in the file. In each value `*` stands for any characters;
addresses are networks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from proxy.policy.networks import Network, contains, lies_in
from proxy.policy_yaml.errors import Where
from proxy.schema.globs import glob_of

UNKNOWN = "unknown"
"""The name under which clients of no app are counted."""


class Caller(NamedTuple):
    """What Keyrail knows about a client.

    `listener` is the address that it connected to, ``HOST:PORT`` or the path of a unix socket; `certificate` is the
    common name of its certificate; `address` is its own IP address, without the port.
    """

    user: str
    client_name: str = ""
    listener: str = ""
    certificate: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class Match:
    """The conditions of an app: the patterns of each field, one of which must match. A field without any matches every
    client."""

    user: tuple[str, ...] = ()
    client_name: tuple[str, ...] = ()
    listener: tuple[str, ...] = ()
    certificate: tuple[str, ...] = ()
    address: tuple[Network, ...] = ()

    @property
    def patterns(self) -> tuple[tuple[str, ...], ...]:
        """The patterns of text, by field."""
        return self.user, self.client_name, self.listener, self.certificate

    @property
    def conditions(self) -> int:
        """The number of its conditions."""
        return sum(map(bool, (*self.patterns, self.address)))

    @property
    def is_exact(self) -> bool:
        """Whether each condition is one text that matches only itself."""
        return not self.address and all(len(each) <= 1 and "*" not in "".join(each) for each in self.patterns)

    def fits(self, caller: Caller) -> bool:
        """Whether all conditions are true of the client."""
        return (
            matches_one(self.user, caller.user)
            and matches_one(self.client_name, caller.client_name)
            and matches_one(self.listener, caller.listener)
            and matches_one(self.certificate, caller.certificate)
            and (not self.address or lies_in(caller.address, self.address))
        )

    def covers(self, other: "Match") -> bool:
        """Whether it matches every client that the other one matches, as far as single patterns tell."""
        networks = all(any(contains(mine, each) for mine in self.address) for each in other.address)
        return all(map(_cover, self.patterns, other.patterns)) and (
            not self.address or (bool(other.address) and networks)
        )


@dataclass(frozen=True, slots=True)
class App:
    """An application."""

    name: str
    where: Where
    team: str = ""
    contact: str = ""
    match: Match = Match()

    @property
    def proven(self) -> bool:
        """Whether only clients that really are of this app can match."""
        return not self.match.client_name


def identify(apps: Sequence[App], caller: Caller) -> App | None:
    """The app of a client; None if no app matches."""
    matching = [app for app in apps if app.match.fits(caller)]
    return min(matching, key=lambda app: (not app.proven, -app.match.conditions), default=None)


def matches_one(patterns: Sequence[str], text: str) -> bool:
    """Whether the text matches one of the patterns, in which `*` stands for any characters; without any, all do."""
    return not patterns or any(glob_of(pattern).fits(text) for pattern in patterns)


def _cover(general: Sequence[str], special: Sequence[str]) -> bool:
    """Whether the general patterns match every text that the special ones match."""
    if not (general and special):
        return not general or "*" in general
    return all(any(covers_text(mine, each) for mine in general) for each in special)


def covers_text(general: str, special: str) -> bool:
    """Whether the general pattern matches every text that the special one matches."""
    return glob_of(general).fits(special.replace("*", "\0"))
