"""Who decides about logins, as a session sees it, and what logins are."""

from typing import NamedTuple, Protocol

from proxy.session.ports.client import ServedClient
from proxy.session.ports.pool_key import PoolKey


class Credentials(NamedTuple):
    """What AUTH or HELLO gives; ``alone`` says that it was a password without a user, which means the default user."""

    user: bytes
    password: bytes
    alone: bool = False

    def __repr__(self) -> str:
        """Without the password."""
        return f"Credentials({self.user!r})"


class LoginReply(NamedTuple):
    """What becomes of a login: its reply; the pool's ``user`` from now on, and as whom rules know the client, where
    that is another name."""

    frame: bytes
    user: str | None = None
    local_user: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the client is logged in."""
        return self.frame.startswith(b"+")


class LoginPort(Protocol):
    """Who decides about the logins of a listener's clients. With ``local`` none of them reaches Redis.

    ``anonymous``: the route itself has no login. ``own_name`` is the user as whom it is logged in; empty for the
    default one.
    """

    local: bool
    anonymous: bool
    own_name: str = ""

    def is_own(self, login: Credentials) -> bool:
        """Whether it names the user as whom the route itself is logged in: its clients can share those connections."""

    def check(self, client: ServedClient, login: Credentials) -> LoginReply | None:
        """What becomes of this login; None while Redis is asked, and ``arrived`` is called when it has answered."""

    def accepted(self, client: ServedClient, login: Credentials, key: PoolKey) -> str | None:
        """Redis has accepted it on the client's own connection, of this pool; the user of its pool from now on."""

    def refused(self, client: ServedClient, login: Credentials) -> None:
        """Redis has refused it on the client's own connection."""
