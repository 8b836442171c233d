"""Strict reading of Redis URLs: an unknown option is an error, and no error text shows a password."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qsl, urlsplit

from proxy.policy_yaml.regular_file import read_regular
from proxy.wire.numbers import read_digits

_T = TypeVar("_T")

_SCHEMES = {
    "redis": "redis",
    "rediss": "rediss",
    "unix": "unix",
    "valkey": "redis",
    "valkeys": "rediss",
}

# Options about redis-py itself: without a meaning in a proxy, but URLs contain them.
_CLIENT_ONLY = frozenset(
    {
        "client_name",
        "decode_responses",
        "encoding",
        "encoding_errors",
        "health_check_interval",
        "legacy_responses",
        "max_connections",
        "protocol",
        "retry_on_error",
        "retry_on_timeout",
        "socket_connect_timeout",
        "socket_keepalive",
        "socket_read_size",
        "socket_timeout",
        "timeout",
    }
)


TLS_OPTIONS = frozenset(
    {
        *("ca", "ca_path", "certificate", "cert", "key", "key_password", "key_password_file", "client_ca"),
        *("verify", "check_hostname", "ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_password"),
        *("ssl_password_file", "ssl_cert_reqs", "ssl_check_hostname"),
    }
)
"""The options of a URL that are about TLS."""


class AddressError(ValueError):
    """A URL that cannot be used; the text names the URL (without its password) and what was expected."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret as text, or a file that has it. The file is read each time, so a change counts at once."""

    text: str | None = field(default=None, repr=False)
    file: Path | None = None

    def read(self) -> str:
        """Return the secret; a file's trailing line end is not part of it.

        Raises OSError if the file cannot be read, and ValueError if it is not UTF-8.
        """
        if self.file is None:
            return self.text or ""
        return read_regular(self.file).decode("utf-8").rstrip("\r\n")


def redacted(url: str) -> str:
    """Return ``url`` fit for a message: passwords replaced, control characters made visible."""
    # Greedy on purpose: a password with an unescaped "/" or "@" in it must not show either.
    shown = re.sub(r"^([a-z+]*:/*)?([^:@]*):.*@", r"\1\2:***@", url)
    shown = re.sub(r"(?i)((?:^|[?&])(?:ssl_|sentinel_|key_)?password=)[^&]*", r"\1***", shown)
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in shown)


@dataclass(frozen=True, slots=True)
class UrlParts:
    """A split URL: what ``urlsplit`` returns, with the port already a number."""

    netloc: str
    username: str | None
    password: str | None
    hostname: str | None
    port: int | None
    path: str
    query: str


def split_url(url: str, expected: str) -> tuple[str, UrlParts]:
    """The scheme (redis, rediss or unix) and the parts of a URL, or of ``HOST:PORT``.

    Raises AddressError, which says what was ``expected``.
    """
    if "://" not in url:
        host, _, digits = url.rpartition(":")
        if not host or read_digits(digits) is None or "/" in url or "@" in url:
            raise bad_url(url, expected)
        if ":" in host and not host.startswith("["):
            raise bad_url(url, "write an IPv6 address in brackets: [::1]:6380")
        url = f"redis://{url}"
    try:
        split = urlsplit(url)
        port = split.port
    except ValueError:
        raise bad_url(url, f"its host or port cannot be read; {expected}") from None
    scheme = _SCHEMES.get(split.scheme)
    if scheme is None or split.fragment:
        raise bad_url(url, expected)
    return scheme, UrlParts(split.netloc, split.username, split.password, split.hostname, port, split.path, split.query)


class UrlOptions:
    """The options of a URL. An option that nobody takes is an error."""

    def __init__(self, url: str, query: str) -> None:
        self._url = url
        self._known: list[str] = []
        self._values: dict[str, str] = {}
        for name, value in parse_qsl(query, keep_blank_values=True):
            if name in self._values:
                raise bad_url(url, f"{name} is given twice")
            self._values[name] = value

    def take(self, read: Callable[[str], _T], *names: str) -> _T | None:
        """Return the value of the option with one of ``names`` (they mean the same), read; None if absent."""
        self._known.append(names[0])
        given = [name for name in names if name in self._values]
        if not given:
            return None
        if len(given) > 1:
            raise bad_url(self._url, f"{given[0]} and {given[1]} mean the same: give one")
        value = self._values.pop(given[0])
        try:
            return read(value)
        except ValueError as error:
            raise bad_url(self._url, f"{given[0]}: {error}") from None

    def secret(self, text: str, file: str, *others: str) -> Secret | None:
        """Return the secret of option ``text`` or of the file that option ``file`` names; ``others`` mean the same."""
        plain, path = self.take(str, text, *others[::2]), self.take(path_of_file, file, *others[1::2])
        if plain is not None and path is not None:
            raise bad_url(self._url, f"{text} and {file} exclude each other")
        if plain is None and path is None:
            return None
        return Secret(plain, path)

    def finish(self) -> None:
        """Raise AddressError if an option was given that nobody took."""
        left = [name for name in self._values if name not in _CLIENT_ONLY]
        scheme, plus, more = self._url.partition("://")[0].partition("+")
        if left and left[0] in TLS_OPTIONS and scheme in ("redis", "valkey"):
            plain = scheme + plus + more
            raise bad_url(self._url, f"{left[0]} is about TLS: write {scheme}s{plus}{more}:// for {plain}://")
        if left:
            known = ", ".join(self._known) or "none here"
            raise bad_url(self._url, f"unknown option {left[0]!r} (known: {known})")


def path_of_file(text: str) -> Path:
    """The value of an option that names a file. Raises ValueError."""
    if not text:
        raise ValueError("expected the path of a file")
    return Path(text)


def bad_url(url: str, problem: str) -> AddressError:
    """The error for a URL with this problem."""
    return AddressError(f"bad URL {redacted(url)!r}: {problem}")
