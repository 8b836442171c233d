"""Where Keyrail listens and what it connects to, read from URLs.

Listening:   ``HOST:PORT``  ``redis://HOST:PORT``  ``unix:///path[?mode=770]``
             ``rediss://HOST:PORT?certificate=FILE&key=FILE[&client_ca=FILE][&key_password_file=FILE]``
             and for each ``client_auth=upstream`` or ``client_password_file=FILE``
Upstream:    redis-py's forms: ``redis://[user[:password]@]host[:port][/database]``, ``rediss://…``,
             ``unix://[user[:password]@]/path[?db=N]``, and plain ``HOST:PORT``; ``password_file=FILE`` in the
             query takes the password from a file. redis-py's ``ssl_…`` options mean what they mean there; the
             ones that only tell redis-py how to behave (``socket_timeout``, …) have no effect.
Cluster:     ``redis+cluster://`` and ``rediss+cluster://``, with hosts separated by commas (``cluster_address.py``)

A URL is read strictly: what is not understood is an error, so that a mistyped ``ssl_ca_cert`` never turns into
a connection that trusts the wrong thing. Nothing here opens a socket, and no text made here shows a password.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from proxy.net.client_auth import ClientAuth, read_client_auth
from proxy.net.cluster_address import is_cluster_url, read_map, split_seeds
from proxy.net.slot_map import Endpoint
from proxy.net.url_values import read_boolean, read_database, read_file_name, read_octal
from proxy.wire.numbers import read_digits

_T = TypeVar("_T")

DEFAULT_LISTEN_PORT = 6380
DEFAULT_UPSTREAM_PORT = 6379

_SCHEMES = {
    "redis": "redis",
    "rediss": "rediss",
    "unix": "unix",
    "valkey": "redis",
    "valkeys": "rediss",
}
_LISTEN_EXPECTED = "expected redis://HOST:PORT, rediss://HOST:PORT?certificate=FILE&key=FILE, unix:///path or HOST:PORT"
_UPSTREAM_EXPECTED = (
    "expected redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], rediss://…, unix:///path[?db=N], HOST:PORT, "
    "or redis+cluster://HOST1:PORT,HOST2:PORT"
)

# Options that say how redis-py itself behaves: meaningless in a proxy, but URLs carry them.
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


class AddressError(ValueError):
    """A URL that cannot be used; the text names the URL (without its password) and what was expected."""


class Verify(Enum):
    """How much an upstream's certificate must prove, in the words of redis-py's ``ssl_cert_reqs``."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret given as text, or a file that holds it (read anew each time: a change counts at once)."""

    text: str | None = field(default=None, repr=False)
    file: Path | None = None

    def read(self) -> str:
        """Return the secret; a file's trailing line end is not part of it.

        Raises OSError if the file cannot be read, and ValueError if it is not UTF-8.
        """
        if self.file is None:
            return self.text or ""
        return self.file.read_text(encoding="utf-8").rstrip("\r\n")


@dataclass(frozen=True, slots=True)
class ListenerTls:
    """The files of a TLS listener; with ``client_ca`` every client must show a certificate that it signed."""

    certificate: Path
    key: Path
    client_ca: Path | None = None
    key_password: Secret | None = None


@dataclass(frozen=True, slots=True)
class UpstreamTls:
    """How to speak TLS to the upstream; without ``ca_file`` and ``ca_path`` the system's CAs are trusted."""

    verify: Verify = Verify.REQUIRED
    check_hostname: bool = True
    ca_file: Path | None = None
    ca_path: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    key_password: Secret | None = None


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where clients connect: ``host`` and ``port`` (0: the system chooses), or the unix socket at ``path``.

    ``mode`` is the unix socket's permission bits; None leaves them to the process's umask. Where ``client_auth`` is
    None, the options of the route decide.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_LISTEN_PORT
    path: Path | None = None
    mode: int | None = None
    tls: ListenerTls | None = None
    client_auth: ClientAuth | None = None
    client_password_file: Path | None = None

    def __str__(self) -> str:
        return _display(self.host, self.port, self.path, self.tls is not None)


@dataclass(frozen=True, slots=True)
class UpstreamAddress:
    """The Redis behind a route: ``host`` and ``port``, or the unix socket at ``path``; and its login.

    Of a cluster it is the first of its ``seeds``. ``reachable`` has the addresses of nodes by those that they announce.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_UPSTREAM_PORT
    path: Path | None = None
    tls: UpstreamTls | None = None
    username: str | None = None
    password: Secret | None = None
    database: int = 0
    seeds: tuple[Endpoint, ...] = ()
    reachable: Mapping[Endpoint, Endpoint] = field(default_factory=dict, hash=False)

    def at(self, endpoint: Endpoint) -> "UpstreamAddress":
        """Another server, with the same login and TLS."""
        return replace(self, host=endpoint.host, port=endpoint.port, seeds=())

    def as_seed(self) -> "UpstreamAddress":
        """The cluster that this server is a node of."""
        return replace(self, seeds=(Endpoint(self.host, self.port),))

    def __str__(self) -> str:
        if self.seeds:
            return f"redis{'s' if self.tls else ''}+cluster://{','.join(map(str, self.seeds))}"
        shown = _display(self.host, self.port, self.path, self.tls is not None)
        return f"{shown}/{self.database}" if self.database and self.path is None else shown


def parse_listen(url: str) -> ListenAddress:
    """Read a listener's URL. Raises AddressError."""
    scheme, parts = _split(url, _LISTEN_EXPECTED)
    if parts.username or parts.password:
        raise _error(url, "a listener's URL has no user and no password: see client_auth and client_password_file")
    options = _Options(url, parts.query)
    client_auth, password_file = _client_auth(url, options)
    if scheme == "unix":
        if parts.netloc or len(parts.path) < 2:
            raise _error(url, "expected unix:///path, with three slashes")
        mode = options.take(read_octal, "mode")
        options.finish()
        return ListenAddress("", 0, Path(unquote(parts.path)), mode, None, client_auth, password_file)
    if parts.path not in ("", "/"):
        raise _error(url, "a listener has no database: clients choose it with SELECT")
    host = parts.hostname
    if not host:
        raise _error(url, _LISTEN_EXPECTED)
    port = _port(url, parts.port, DEFAULT_LISTEN_PORT)
    tls = _listener_tls(url, options) if scheme == "rediss" else None
    options.finish()
    return ListenAddress(unquote(host), port, None, None, tls, client_auth, password_file)


def parse_upstream(url: str) -> UpstreamAddress:
    """Read an upstream's URL. Raises AddressError."""
    seeds: tuple[Endpoint, ...] = ()
    single = url
    if is_cluster_url(url):
        try:
            single, seeds = split_seeds(url)
        except ValueError as error:
            raise _error(url, str(error)) from None
    scheme, parts = _split(single, _UPSTREAM_EXPECTED)
    options = _Options(url, parts.query)
    reachable = options.take(read_map, "map") if seeds else None
    username = options.take(str, "username") or (unquote(parts.username) if parts.username else None)
    password = _password(url, options, parts.password)
    if username and password is None:
        raise _error(url, f"user {username!r} needs a password (USER:PASSWORD@ or password_file=FILE)")
    database = options.take(read_database, "db")
    if scheme == "unix":
        if not parts.path or parts.path == "/" or parts.hostname:
            raise _error(url, "expected unix:///path[?db=N], with three slashes")
        options.finish()
        return UpstreamAddress(
            host="",
            port=0,
            path=Path(unquote(parts.path)),
            username=username,
            password=password,
            database=database or 0,
        )
    if database is None and parts.path not in ("", "/"):
        try:
            database = read_database(unquote(parts.path).strip("/"))
        except ValueError as error:
            raise _error(url, f"the path is the database: {error}") from None
    port = _port(url, parts.port, DEFAULT_UPSTREAM_PORT)
    if port == 0:
        raise _error(url, "expected a port between 1 and 65535")
    tls = _upstream_tls(url, options) if scheme == "rediss" else None
    options.finish()
    return UpstreamAddress(
        host=unquote(parts.hostname or "localhost"),
        port=port,
        tls=tls,
        username=username,
        password=password,
        database=database or 0,
        seeds=seeds,
        reachable=reachable or {},
    )


def redacted(url: str) -> str:
    """Return ``url`` fit for a message: passwords replaced, control characters made visible."""
    # Greedy on purpose: a password with an unescaped "/" or "@" in it must not show either.
    shown = re.sub(r"^([a-z+]*:/*)?([^:@]*):.*@", r"\1\2:***@", url)
    shown = re.sub(r"(?i)((?:^|[?&])(?:ssl_)?password=)[^&]*", r"\1***", shown)
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in shown)


@dataclass(frozen=True, slots=True)
class _Parts:
    """A split URL: what ``urlsplit`` returns, with the port already a number."""

    netloc: str
    username: str | None
    password: str | None
    hostname: str | None
    port: int | None
    path: str
    query: str


def _split(url: str, expected: str) -> tuple[str, _Parts]:
    if "://" not in url:
        host, _, digits = url.rpartition(":")
        if not host or read_digits(digits) is None or "/" in url or "@" in url:
            raise _error(url, expected)
        if ":" in host and not host.startswith("["):
            raise _error(url, "an IPv6 address stands in brackets: [::1]:6380")
        url = f"redis://{url}"
    try:
        split = urlsplit(url)
        port = split.port
    except ValueError:
        raise _error(url, f"its host or port cannot be read; {expected}") from None
    scheme = _SCHEMES.get(split.scheme)
    if scheme is None or split.fragment:
        raise _error(url, expected)
    return scheme, _Parts(split.netloc, split.username, split.password, split.hostname, port, split.path, split.query)


class _Options:
    """A URL's query, taken option by option; what is left over at the end is an error."""

    def __init__(self, url: str, query: str) -> None:
        self._url = url
        self._known: list[str] = []
        self._values: dict[str, str] = {}
        for name, value in parse_qsl(query, keep_blank_values=True):
            if name in self._values:
                raise _error(url, f"{name} is given twice")
            self._values[name] = value

    def take(self, read: Callable[[str], _T], *names: str) -> _T | None:
        """Return the value of the option with one of ``names`` (they mean the same), read; None if absent."""
        self._known.append(names[0])
        given = [name for name in names if name in self._values]
        if not given:
            return None
        if len(given) > 1:
            raise _error(self._url, f"{given[0]} and {given[1]} mean the same: give one")
        value = self._values.pop(given[0])
        try:
            return read(value)
        except ValueError as error:
            raise _error(self._url, f"{given[0]}: {error}") from None

    def secret(self, text: str, file: str) -> Secret | None:
        """Return the secret of option ``text`` or of the file that option ``file`` names."""
        plain, path = self.take(str, text), self.take(read_file_name, file)
        if plain is not None and path is not None:
            raise _error(self._url, f"{text} and {file} exclude each other")
        if plain is None and path is None:
            return None
        return Secret(plain, path)

    def finish(self) -> None:
        """Raise AddressError if an option was given that nobody took."""
        left = [name for name in self._values if name not in _CLIENT_ONLY]
        if left:
            known = ", ".join(self._known) or "none here"
            raise _error(self._url, f"unknown option {left[0]!r} (known: {known})")


def _client_auth(url: str, options: _Options) -> tuple[ClientAuth | None, Path | None]:
    client_auth = options.take(read_client_auth, "client_auth")
    file = options.take(read_file_name, "client_password_file")
    if file is not None and client_auth is not None:
        raise _error(url, "client_auth and client_password_file exclude each other")
    return (client_auth if file is None else ClientAuth.FILE), file


def _listener_tls(url: str, options: _Options) -> ListenerTls:
    certificate = options.take(read_file_name, "certificate", "cert", "ssl_certfile")
    key = options.take(read_file_name, "key", "ssl_keyfile")
    client_ca = options.take(read_file_name, "client_ca", "ca", "ssl_ca_certs")
    key_password = options.secret("key_password", "key_password_file")
    if certificate is None:
        raise _error(url, "rediss:// needs a certificate: rediss://HOST:PORT?certificate=FILE&key=FILE")
    return ListenerTls(certificate, key or certificate, client_ca, key_password)


def _upstream_tls(url: str, options: _Options) -> UpstreamTls:
    verify = options.take(_verify, "ssl_cert_reqs")
    if verify is None:
        verify = Verify.REQUIRED
    check_hostname = options.take(read_boolean, "ssl_check_hostname")
    certificate = options.take(read_file_name, "ssl_certfile")
    key = options.take(read_file_name, "ssl_keyfile")
    if key is not None and certificate is None:
        raise _error(url, "ssl_keyfile needs ssl_certfile")
    if check_hostname and verify is Verify.NONE:
        raise _error(url, "ssl_check_hostname=true needs ssl_cert_reqs=required")
    return UpstreamTls(
        verify=verify,
        check_hostname=verify is not Verify.NONE if check_hostname is None else check_hostname,
        ca_file=options.take(read_file_name, "ssl_ca_certs"),
        ca_path=options.take(read_file_name, "ssl_ca_path"),
        certificate=certificate,
        key=key,
        key_password=options.secret("ssl_password", "ssl_password_file"),
    )


def _password(url: str, options: _Options, in_authority: str | None) -> Secret | None:
    secret = options.secret("password", "password_file")
    if secret is not None and in_authority:
        raise _error(url, "the password is given twice")
    return Secret(unquote(in_authority)) if in_authority else secret


def _display(host: str, port: int, path: Path | None, tls: bool) -> str:
    if path is not None:
        return f"unix://{path}"
    shown = f"[{host}]" if ":" in host else host
    return f"redis{'s' if tls else ''}://{shown}:{port}"


def _error(url: str, problem: str) -> AddressError:
    return AddressError(f"bad URL {redacted(url)!r}: {problem}")


def _port(url: str, port: int | None, default: int) -> int:
    if port is not None and not 0 <= port <= 65535:
        raise _error(url, "expected a port between 0 and 65535")
    return default if port is None else port


def _verify(text: str) -> Verify:
    for verify in Verify:
        if text.lower() in (verify.value, f"cert_{verify.value}"):
            return verify
    raise ValueError(f"expected required, optional or none, got {text!r}")
