"""Passwords of a listener's own: who has one of a file shares the route's connections, and Redis is not asked.

A line of the file is a password of the user ``default``, or a name and a password:

    correct-horse-battery-staple
    reports 8fb2a51c97
    web #5e884898da28047151d0e56f8dc6292773603d0d6aabbd62a11ef721d1542d8

``#`` and 64 hexadecimal digits are the SHA-256 of a password, as in Redis's ACL files. Each user may have any number of
passwords, so that a new one counts before the old one goes. Empty lines, and lines that begin with ``#`` and a space,
mean nothing. A file that has changed counts for logins that come a millisecond later.
"""

import hashlib
import hmac
import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from proxy.net.connection.followed import Followed
from proxy.net.logins.logins import RefusedLogins
from proxy.policy_yaml.regular_file import read_regular
from proxy.session.ports.client import ServedClient
from proxy.session.ports.login_port import Credentials, LoginPort, LoginReply
from proxy.session.ports.pool_key import PoolKey, user_named
from proxy.wire.encode import OK, encode_error

_DEFAULT_USER = b"default"
_ACCEPTED = LoginReply(OK)
_WRONG = encode_error("WRONGPASS invalid username-password pair or user is disabled.")
_HASHED = re.compile(rb"#([0-9a-f]{64})")
_NOBODY = (bytes(32),)
"""What the password of an unknown user is compared with: it takes as long as for a known one."""

_log = logging.getLogger("keyrail.logins")


class PasswordFileError(ValueError):
    """A password file that cannot be used; the text names the file and the line, and shows no password."""


def read_passwords(file: Path) -> Mapping[bytes, tuple[bytes, ...]]:
    """The SHA-256 of each user's passwords. Raises PasswordFileError."""
    try:
        lines = read_regular(file).split(b"\n")
    except OSError as error:
        raise PasswordFileError(f"cannot read the client passwords in {file}: {error.strerror}") from None
    found: dict[bytes, tuple[bytes, ...]] = {}
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0] == b"#":
            continue
        if len(words) > 2:
            raise PasswordFileError(
                f"{file}:{number}: expected a password, or a user and a password; write one that has spaces as # and "
                "its SHA-256"
            )
        user = words[0] if len(words) == 2 else _DEFAULT_USER
        found[user] = (*found.get(user, ()), _digest_in(words[-1], f"{file}:{number}"))
    if not found:
        raise PasswordFileError(f"{file}: there is no password in it, so nobody could log in")
    return found


def _digest_in(word: bytes, place: str) -> bytes:
    if not word.startswith(b"#"):
        return hashlib.sha256(word).digest()
    hashed = _HASHED.fullmatch(word.lower())
    if hashed is None:
        raise PasswordFileError(f"{place}: expected # and the 64 hexadecimal digits of a SHA-256")
    return bytes.fromhex(hashed[1].decode())


class FileLogins(LoginPort):
    """The logins of one listener's clients. Raises PasswordFileError where its file cannot be used at first.

    ``now`` is the time of the event loop: uvloop has whole milliseconds, and looks at the clock once in a turn.
    """

    local = True
    anonymous = False

    def __init__(
        self,
        file: Path,
        refused: RefusedLogins,
        outcomes: Counter[str],
        now: Callable[[], float],
    ) -> None:
        self._passwords = Followed(lambda: read_passwords(file), (file,), _log.warning, PasswordFileError)
        self._refused = refused
        self._outcomes = outcomes
        self._now = now
        self._known: Mapping[bytes, tuple[bytes, ...]] = {}
        self._looked_at = -1.0

    def _current(self) -> Mapping[bytes, tuple[bytes, ...]]:
        # A look at the file costs a third of a login.
        now = self._now()
        if now != self._looked_at:
            self._known, self._looked_at = self._passwords.current(), now
        return self._known

    def is_own(self, login: Credentials) -> bool:
        """Redis is asked about none of them."""
        return False

    def check(self, client: ServedClient, login: Credentials) -> LoginReply | None:
        """Compare in constant time."""
        given = hashlib.sha256(login.password).digest()
        known = self._current().get(login.user)
        right = False
        for each in known or _NOBODY:
            right |= hmac.compare_digest(each, given)
        if not right or known is None:
            self.refused(client, login)
            return LoginReply(_WRONG)
        self._outcomes["accepted"] += 1
        return _ACCEPTED if login.user == _DEFAULT_USER else LoginReply(OK, local_user=user_named(login.user))

    def accepted(self, client: ServedClient, login: Credentials, key: PoolKey) -> str | None:
        """Nobody asks Redis."""
        raise AssertionError("the file decides")

    def refused(self, client: ServedClient, login: Credentials) -> None:
        """Count it, and tell of it."""
        self._refused.add(client, login.user)
