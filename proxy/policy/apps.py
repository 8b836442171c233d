"""The applications that a policy knows, and how a client is recognised as one.

    apps:
      checkout: {team: checkout, contact: "#checkout", match: {user: checkout}}
      reports:  {team: data, match: {client_name: "spark-*"}}

A user that Redis has let in, the listener that a client came by and the certificate that it showed are *proven*. A
client name is only *claimed*: anyone can say it, so an app that is known by one is good for counting and for being
judged more strictly, never for being judged more mildly. A client that matches none belongs to no app, and is counted
as "unknown".

All conditions of `match` must be true. Of several apps that match, a proven one goes first, then the one that asks for
more, then the order of the file. In each value `*` stands for any characters.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from proxy.policy_yaml.errors import Where
from proxy.schema.globs import glob_of

UNKNOWN = "unknown"
"""How clients of no app are counted."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A client, as far as Keyrail knows it.

    `listener` is the address that it came by, ``HOST:PORT`` or the path of a unix socket; `certificate` the common
    name in the certificate that it showed.
    """

    user: str
    client_name: str = ""
    listener: str = ""
    certificate: str = ""


@dataclass(frozen=True, slots=True)
class App:
    """An application; each of the four patterns is empty where it says nothing."""

    name: str
    where: Where
    team: str = ""
    contact: str = ""
    user: str = ""
    client_name: str = ""
    listener: str = ""
    certificate: str = ""

    @property
    def proven(self) -> bool:
        """Whether only who really is this app can match."""
        return not self.client_name

    @property
    def conditions(self) -> int:
        """How many things must be true of its clients."""
        return sum(map(bool, (self.user, self.client_name, self.listener, self.certificate)))

    def matches(self, caller: Caller) -> bool:
        """Whether the client is of this app."""
        return (
            matches_glob(self.user, caller.user)
            and matches_glob(self.client_name, caller.client_name)
            and matches_glob(self.listener, caller.listener)
            and matches_glob(self.certificate, caller.certificate)
        )


def identify(apps: Sequence[App], caller: Caller) -> App | None:
    """The app that a client belongs to."""
    matching = [app for app in apps if app.matches(caller)]
    return min(matching, key=lambda app: (not app.proven, -app.conditions), default=None)


def matches_glob(pattern: str, text: str) -> bool:
    """Whether the text fits a pattern in which `*` stands for any characters; an empty pattern says nothing."""
    return not pattern or glob_of(pattern).fits(text)
