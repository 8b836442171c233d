"""What stands in a HELLO: the protocol, a login, a name; and Redis's errors for one that changes nothing."""

import re
from typing import NamedTuple

from proxy.commands.words import word_of
from proxy.session.logins import client_names
from proxy.session.ports.login_port import Credentials
from proxy.wire.encode import encode_error

BAD_NAME = encode_error("ERR Client names cannot contain spaces, newlines or special characters.")
_NO_NUMBER = encode_error("ERR Protocol version is not an integer or out of range")
_NO_PROTOCOL = encode_error("NOPROTO unsupported protocol version")
_NO_LOGIN = (
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO %sAUTH <user> <pass> "
    "option can be used to authenticate the client and select the RESP protocol version at the same time"
)

_NUMBER = re.compile(rb"0|-?[1-9][0-9]{0,18}")
_BEYOND = 1 << 63
_PROTOCOLS = (b"2", b"3")


class Hello(NamedTuple):
    """A HELLO that may succeed; ``in_order`` says that AUTH, if there, comes first."""

    protocol: int
    login: Credentials | None
    name: bytes | None
    in_order: bool

    def without_login(self) -> list[bytes]:
        """The same, from a client that is logged in already."""
        named = [] if self.name is None else [b"SETNAME", self.name]
        return [b"HELLO", b"%d" % self.protocol, *named]


def _is_number(text: bytes) -> bool:
    # As Redis reads one: 64 bits, no zero before it.
    return _NUMBER.fullmatch(text) is not None and -_BEYOND <= int(text) < _BEYOND


def read_hello(argv: list[bytes]) -> Hello | None:
    """What a HELLO asks for; None for one that cannot succeed, or has an option twice."""
    if len(argv) < 2 or argv[1] not in _PROTOCOLS:
        return None
    login: Credentials | None = None
    name: bytes | None = None
    in_order = True
    rest = argv[2:]
    while rest:
        word = word_of(rest[0])
        if word == b"AUTH" and len(rest) >= 3 and login is None:
            in_order = name is None
            login = Credentials(rest[1], rest[2])
            rest = rest[3:]
        elif word == b"SETNAME" and len(rest) >= 2 and name is None:
            name = rest[1]
            rest = rest[2:]
        else:
            return None
    return Hello(int(argv[1]), login, name, in_order)


def logs_in(argv: list[bytes]) -> bool:
    """Whether a HELLO may log in: AUTH has a user and a password behind it, and may itself be a name or a password."""
    return len(argv) > 2 and argv[1] in _PROTOCOLS and any(word_of(word) == b"AUTH" for word in argv[2:-2])


def refusal(argv: list[bytes], names_protocol: bool) -> bytes:
    """The error for a HELLO of a client that is not logged in; empty where its login decides.

    As Valkey 9 does it, all options are read before the login is tried.
    """
    if len(argv) > 1 and argv[1] not in _PROTOCOLS:
        return _NO_PROTOCOL if _is_number(argv[1]) else _NO_NUMBER
    rest = argv[2:]
    login = False
    while rest:
        word = word_of(rest[0])
        if word == b"AUTH" and len(rest) >= 3:
            login = True
            rest = rest[3:]
        elif word == b"SETNAME" and len(rest) >= 2:
            if not client_names.valid(rest[1]):
                return BAD_NAME
            rest = rest[2:]
        else:
            option = rest[0].partition(b"\0")[0].replace(b"\r", b" ").replace(b"\n", b" ")
            return b"-ERR Syntax error in HELLO option '%b'\r\n" % option
    return b"" if login else encode_error(_NO_LOGIN % ("<proto> " if names_protocol else ""))
