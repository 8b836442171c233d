"""Where Keyrail listens and what it connects to, read from URLs.

Listening:   ``HOST:PORT``  ``redis://HOST:PORT``  ``unix:///path[?mode=770]``
             ``rediss://HOST:PORT?certificate=FILE&key=FILE[&client_ca=FILE][&key_password_file=FILE]``
             and for each ``client_auth=upstream`` or ``client_password_file=FILE``
Upstream:    redis-py's forms: ``redis://[user[:password]@]host[:port][/database]``, ``rediss://…``,
             ``unix://[user[:password]@]/path[?db=N]``, and plain ``HOST:PORT``; ``password_file=FILE`` in the
             query takes the password from a file. TLS has the names of a listener (``ca``, ``certificate``, ``key``)
             or redis-py's (``ssl_ca_certs``, ``ssl_certfile``, ``ssl_keyfile`` …), which mean the same. What only
             tells redis-py how to behave (``socket_timeout``, …) has no effect.
             ``replicas=HOST:PORT,HOST:PORT`` names the replicas to read from, instead of those that the primary names
Cluster:     ``redis+cluster://`` and ``rediss+cluster://``, with hosts separated by commas (``cluster_address.py``)
Sentinel:    ``redis+sentinel://`` and ``rediss+sentinel://``, with the name of the primary (``sentinel_address.py``)

A URL is read strictly: an unknown option is an error, so a mistyped ``ca_cert`` never leads to a connection that
trusts the wrong CA. Nothing here opens a socket, and no text shows a password.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import unquote

from proxy.net.config.client_auth import ClientAuth, read_client_auth
from proxy.net.config.cluster_address import is_cluster_url, read_map, read_seeds, split_seeds
from proxy.net.config.endpoint import Endpoint
from proxy.net.config.sentinel_address import Sentinels, is_sentinel_url, split_sentinels
from proxy.net.config.strict_url import Secret, UrlOptions, bad_url, path_of_file, split_url
from proxy.wire.numbers import read_digits

_MOST_DATABASES = 999_999_999

DEFAULT_LISTEN_PORT = 6380
DEFAULT_UPSTREAM_PORT = 6379

_LISTEN_EXPECTED = "expected redis://HOST:PORT, rediss://HOST:PORT?certificate=FILE&key=FILE, unix:///path or HOST:PORT"
_UPSTREAM_EXPECTED = (
    "expected redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], rediss://…, unix:///path[?db=N], HOST:PORT, "
    "redis+cluster://HOST1:PORT,HOST2:PORT or redis+sentinel://SENTINEL1:PORT,SENTINEL2:PORT/NAME"
)


class Verify(Enum):
    """How an upstream's certificate is verified; the values of redis-py's ``ssl_cert_reqs``."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    NONE = "none"


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

    Of a cluster it is the first of its ``seeds``, and where ``sentinels`` know the address, the first of these.
    ``reachable`` has the addresses of nodes by those that they announce. ``server_name`` is the name that led to the
    address in ``host``; certificates are for the name. Without ``replicas``, those are used that the primary names.
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
    sentinels: Sentinels | None = None
    server_name: str = ""
    replicas: tuple[Endpoint, ...] = ()

    @property
    def is_name(self) -> bool:
        """Whether the host is a name that can lead to another address later."""
        if self.path is not None:
            return False
        try:
            ip_address(self.host)
        except ValueError:
            return True
        return False

    def resolved(self, found: Endpoint) -> "UpstreamAddress":
        """The same upstream, at this address of its name."""
        return replace(self, host=found.host, port=found.port, server_name=self.host)

    def at(self, endpoint: Endpoint) -> "UpstreamAddress":
        """Another server, with the same login and TLS."""
        return replace(self, host=endpoint.host, port=endpoint.port, path=None, seeds=(), sentinels=None)

    def at_sentinel(self, endpoint: Endpoint) -> "UpstreamAddress":
        """A Sentinel, with the login that is meant for Sentinels."""
        assert self.sentinels is not None, "only an upstream with Sentinels is asked for one"
        login = self.sentinels
        return replace(self.at(endpoint), username=login.username, password=login.password, database=0)

    def reach(self, announced: Endpoint) -> Endpoint:
        """Where to connect for an address that nodes announce."""
        return self.reachable.get(announced, announced)

    def as_seed(self) -> "UpstreamAddress":
        """The cluster that this server is a node of."""
        return replace(self, seeds=(Endpoint(self.host, self.port),))

    def __str__(self) -> str:
        if self.seeds:
            return f"redis{'s' if self.tls else ''}+cluster://{','.join(map(str, self.seeds))}"
        if self.sentinels is not None:
            shown = f"redis{'s' if self.tls else ''}+sentinel://{self.sentinels}"
            return f"{shown}/{self.database}" if self.database else shown
        shown = _display(self.server_name or self.host, self.port, self.path, self.tls is not None)
        shown = f"{shown}/{self.database}" if self.database and self.path is None else shown
        return f"{shown} ({self.host})" if self.server_name else shown


def parse_listen(url: str) -> ListenAddress:
    """Read a listener's URL. Raises AddressError."""
    scheme, parts = split_url(url, _LISTEN_EXPECTED)
    if parts.username or parts.password:
        raise bad_url(url, "a listener's URL has no user and no password: see client_auth and client_password_file")
    options = UrlOptions(url, parts.query)
    client_auth, password_file = _client_auth(url, options)
    if scheme == "unix":
        if parts.netloc or len(parts.path) < 2:
            raise bad_url(url, "expected unix:///path, with three slashes")
        mode = options.take(_octal, "mode")
        options.finish()
        return ListenAddress("", 0, Path(unquote(parts.path)), mode, None, client_auth, password_file)
    if parts.path not in ("", "/"):
        raise bad_url(url, "a listener has no database: clients choose it with SELECT")
    host = parts.hostname
    if not host:
        raise bad_url(url, _LISTEN_EXPECTED)
    port = _port(url, parts.port, DEFAULT_LISTEN_PORT)
    tls = _listener_tls(url, options) if scheme == "rediss" else None
    options.finish()
    return ListenAddress(unquote(host), port, None, None, tls, client_auth, password_file)


def parse_upstream(url: str) -> UpstreamAddress:
    """Read an upstream's URL. Raises AddressError."""
    seeds: tuple[Endpoint, ...] = ()
    sentinels: Sentinels | None = None
    single = url
    try:
        if is_cluster_url(url):
            single, seeds = split_seeds(url)
        elif is_sentinel_url(url):
            single, sentinels = split_sentinels(url)
    except ValueError as error:
        raise bad_url(url, str(error)) from None
    scheme, parts = split_url(single, _UPSTREAM_EXPECTED)
    options = UrlOptions(url, parts.query)
    reachable = options.take(read_map, "map") if seeds or sentinels else None
    if sentinels is not None:
        sentinels = _log_in(url, options, sentinels)
    replicas = () if seeds else options.take(_replicas, "replicas") or ()
    username = options.take(str, "username") or (unquote(parts.username) if parts.username else None)
    password = _password(url, options, parts.password)
    if username and password is None:
        raise bad_url(url, f"user {username!r} needs a password (USER:PASSWORD@ or password_file=FILE)")
    database = options.take(_database, "db")
    if scheme == "unix":
        if not parts.path or parts.path == "/" or parts.hostname:
            raise bad_url(url, "expected unix:///path[?db=N], with three slashes")
        options.finish()
        return UpstreamAddress(
            host="",
            port=0,
            path=Path(unquote(parts.path)),
            username=username,
            password=password,
            database=database or 0,
            replicas=replicas,
        )
    if database is None and parts.path not in ("", "/"):
        try:
            database = _database(unquote(parts.path).strip("/"))
        except ValueError as error:
            raise bad_url(url, f"the path is the database: {error}") from None
    port = _port(url, parts.port, DEFAULT_UPSTREAM_PORT)
    if port == 0:
        raise bad_url(url, "expected a port between 1 and 65535")
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
        sentinels=sentinels,
        replicas=replicas,
    )


def _replicas(text: str) -> tuple[Endpoint, ...]:
    return read_seeds(text, DEFAULT_UPSTREAM_PORT)


def _log_in(url: str, options: UrlOptions, sentinels: Sentinels) -> Sentinels:
    username = options.take(str, "sentinel_user")
    password = options.secret("sentinel_password", "sentinel_password_file")
    if username and password is None:
        raise bad_url(url, f"sentinel_user {username!r} needs a password (sentinel_password_file=FILE)")
    return replace(sentinels, username=username, password=password)


def _client_auth(url: str, options: UrlOptions) -> tuple[ClientAuth | None, Path | None]:
    client_auth = options.take(read_client_auth, "client_auth")
    file = options.take(path_of_file, "client_password_file")
    if file is not None and client_auth is not None:
        raise bad_url(url, "client_auth and client_password_file exclude each other")
    return (client_auth if file is None else ClientAuth.FILE), file


def _listener_tls(url: str, options: UrlOptions) -> ListenerTls:
    certificate = options.take(path_of_file, "certificate", "cert", "ssl_certfile")
    key = options.take(path_of_file, "key", "ssl_keyfile")
    client_ca = options.take(path_of_file, "client_ca", "ca", "ssl_ca_certs")
    key_password = options.secret("key_password", "key_password_file", "ssl_password", "ssl_password_file")
    if certificate is None:
        raise bad_url(url, "rediss:// needs a certificate: rediss://HOST:PORT?certificate=FILE&key=FILE")
    return ListenerTls(certificate, key or certificate, client_ca, key_password)


def _upstream_tls(url: str, options: UrlOptions) -> UpstreamTls:
    verify = options.take(_verify, "verify", "ssl_cert_reqs")
    if verify is None:
        verify = Verify.REQUIRED
    check_hostname = options.take(_boolean, "check_hostname", "ssl_check_hostname")
    certificate = options.take(path_of_file, "certificate", "cert", "ssl_certfile")
    key = options.take(path_of_file, "key", "ssl_keyfile")
    if key is not None and certificate is None:
        raise bad_url(url, "key needs certificate")
    if check_hostname and verify is Verify.NONE:
        raise bad_url(url, "check_hostname=true needs verify=required")
    return UpstreamTls(
        verify=verify,
        check_hostname=verify is not Verify.NONE if check_hostname is None else check_hostname,
        ca_file=options.take(path_of_file, "ca", "ssl_ca_certs"),
        ca_path=options.take(path_of_file, "ca_path", "ssl_ca_path"),
        certificate=certificate,
        key=key,
        key_password=options.secret("key_password", "key_password_file", "ssl_password", "ssl_password_file"),
    )


def _password(url: str, options: UrlOptions, in_authority: str | None) -> Secret | None:
    secret = options.secret("password", "password_file")
    if secret is not None and in_authority:
        raise bad_url(url, "the password is given twice")
    return Secret(unquote(in_authority)) if in_authority else secret


def _display(host: str, port: int, path: Path | None, tls: bool) -> str:
    if path is not None:
        return f"unix://{path}"
    shown = f"[{host}]" if ":" in host else host
    return f"redis{'s' if tls else ''}://{shown}:{port}"


def _port(url: str, port: int | None, default: int) -> int:
    if port is not None and not 0 <= port <= 65535:
        raise bad_url(url, "expected a port between 0 and 65535")
    return default if port is None else port


def _database(text: str) -> int:
    number = read_digits(text)
    if number is None or number > _MOST_DATABASES:
        raise ValueError(f"expected a database number, got {text!r}")
    return number


def _octal(text: str) -> int:
    if not re.fullmatch(r"0?[0-7]{3}", text):
        raise ValueError(f"expected permission bits such as 770, got {text!r}")
    return int(text, 8)


def _boolean(text: str) -> bool:
    folded = text.lower()
    if folded in ("true", "yes", "on", "1"):
        return True
    if folded in ("false", "no", "off", "0"):
        return False
    raise ValueError(f"expected true or false, got {text!r}")


def _verify(text: str) -> Verify:
    for verify in Verify:
        if text.lower() in (verify.value, f"cert_{verify.value}"):
            return verify
    raise ValueError(f"expected required, optional or none, got {text!r}")
