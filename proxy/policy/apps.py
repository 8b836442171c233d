"""The applications of a policy, and how their clients are recognised.

    apps:
      checkout: {team: checkout, contact: "#checkout", match: {user: checkout}}
      reports:  {team: data, match: {client_name: "spark-*"}}

A user that Redis has accepted, the client's listener and its certificate are *proven*. A client name is only *claimed*:
any client can set it. So an app that is matched by a client name only counts its clients, or judges them more strictly,
never more mildly. A client that matches no app is counted as "unknown".

All conditions of `match` must be true. If several apps match, a proven one goes first, then the one with more
conditions, then the first in the file. In each value `*` stands for any characters.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from proxy.policy_yaml.errors import Where
from proxy.schema.globs import glob_of

UNKNOWN = "unknown"
"""The name under which clients of no app are counted."""


@dataclass(frozen=True, slots=True)
class Caller:
    """What Keyrail knows about a client.

    `listener` is the address that it connected to, ``HOST:PORT`` or the path of a unix socket; `certificate` is the
    common name of its certificate.
    """

    user: str
    client_name: str = ""
    listener: str = ""
    certificate: str = ""


@dataclass(frozen=True, slots=True)
class App:
    """An application. An empty pattern matches every client."""

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
        """Whether only clients that really are of this app can match."""
        return not self.client_name

    @property
    def conditions(self) -> int:
        """The number of its conditions."""
        return sum(map(bool, (self.user, self.client_name, self.listener, self.certificate)))

    def matches(self, caller: Caller) -> bool:
        """Whether all conditions are true of the client."""
        return (
            matches_glob(self.user, caller.user)
            and matches_glob(self.client_name, caller.client_name)
            and matches_glob(self.listener, caller.listener)
            and matches_glob(self.certificate, caller.certificate)
        )


def identify(apps: Sequence[App], caller: Caller) -> App | None:
    """The app of a client; None if no app matches."""
    matching = [app for app in apps if app.matches(caller)]
    return min(matching, key=lambda app: (not app.proven, -app.conditions), default=None)


def matches_glob(pattern: str, text: str) -> bool:
    """Whether the text matches a pattern in which `*` stands for any characters; an empty pattern matches any text."""
    return not pattern or glob_of(pattern).fits(text)
