"""Everything that the operator can set, as one frozen model with its defaults.

``server.config`` fills it from the command line, the environment and the config file; the supervisor hands it
to its workers whole. Adding an option means a field here and a row in ``server.config``, and nothing else.
"""

import os
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from proxy.cluster.shares import Advertised
from proxy.net.config.address import ListenAddress, UpstreamAddress
from proxy.net.config.client_auth import ClientAuth
from proxy.traffic.redaction import Redact, Redaction
from proxy.traffic.time_series import MEMORY

CLIENT_IDLE = 300
"""Seconds without traffic before TCP probes a client, if the operator says nothing."""
DEFAULT_ADMIN_PORT = 9121
DEFAULT_ADMIN_URL = f"http://127.0.0.1:{DEFAULT_ADMIN_PORT}"


class PolicyKind(Enum):
    """Where a route's policy comes from."""

    NONE = "none"
    """No rule at all: a transparent proxy."""

    PACKAGED = "packaged"
    """A file that ships with Keyrail, known by its name ("default")."""

    FILE = "file"
    """A file of the operator's."""


class ReadyWhen(Enum):
    """Which routes must be ready for Keyrail to be ready."""

    ALL = "all"
    ANY = "any"


class LogLevel(Enum):
    """The least urgent lines that are written."""

    DEBUG = "debug"
    """Also each client that comes and leaves."""
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class PolicyTests(Enum):
    """What happens if a policy's own tests fail when it comes into force."""

    WARN = "warn"
    REFUSE = "refuse"
    """It does not come into force: Keyrail does not start, or the old policy stays."""
    OFF = "off"
    """They are not run."""


class LogFormat(Enum):
    """How lines on standard error are written."""

    TEXT = "text"
    JSON = "json"


class Embedded(Enum):
    """What Keyrail starts itself to stand behind a route."""

    SINGLE = "on"
    CLUSTER = "cluster"


class Presented(Enum):
    """How clients see a cluster."""

    SINGLE = "single"
    CLUSTER = "cluster"


class ReadFrom(Enum):
    """Which servers answer reads, where the policy does not say it."""

    PRIMARY = "primary"
    REPLICAS = "replicas"


@dataclass(frozen=True, slots=True)
class PolicySource:
    """Where a route's policy is read from, at start and at each reload."""

    kind: PolicyKind = PolicyKind.PACKAGED
    name: str = "default"

    @property
    def path(self) -> Path | None:
        """The operator's file, if it is one."""
        return Path(self.name) if self.kind is PolicyKind.FILE else None

    def __str__(self) -> str:
        return "none" if self.kind is PolicyKind.NONE else self.name


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """One place where a route's clients connect, and how they log in.

    ``password_file`` is set if a file decides.
    """

    address: ListenAddress
    client_auth: ClientAuth = ClientAuth.NONE
    password_file: Path | None = None


@dataclass(frozen=True, slots=True)
class RouteSettings:
    """One Redis, or a cluster, and the listeners in front of it; with ``embedded`` Keyrail itself starts it."""

    name: str
    listeners: tuple[ListenerSettings, ...]
    upstream: UpstreamAddress
    policy: PolicySource
    embedded: Embedded | None = None
    advertised: tuple[Advertised, ...] = ()
    """The addresses of all Keyrails where clients see a cluster of them; none where they see one Redis."""
    read_from: ReadFrom = ReadFrom.PRIMARY
    aliases: tuple[tuple[str, str], ...] = ()
    """(command, other name) in capitals: what the server's ``rename-command`` has made of commands."""


@dataclass(frozen=True, slots=True)
class AdminSettings:
    """Where the admin HTTP server listens; port 0 lets the system choose."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_ADMIN_PORT


@dataclass(frozen=True, slots=True)
class ViolationsSettings:
    """Where each violation is written as a line of JSON: a file, or standard error."""

    path: Path | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the whole process group."""

    routes: tuple[RouteSettings, ...]
    admin: AdminSettings | None = AdminSettings()

    workers: int = 1
    """Worker processes."""

    pooling: bool = True
    """If false, every client has an upstream connection of its own."""

    drain: float = 10.0
    """Seconds that clients get to receive their pending replies when Keyrail stops."""

    shutdown_delay: float = 0.0
    """Seconds for which clients are still accepted after SIGTERM."""

    accept_patience: float = 1.0
    """Seconds for which clients are taken to wait for Keyrail before they give up; 0 means that none does."""

    upstream_timeout: float = 0.0
    """Seconds that a reply of Redis may take before its client gets an error and is closed; 0 means no limit."""

    connect_timeout: float = 5.0
    """Seconds that connecting to an upstream (name, TCP, TLS, login) may take."""

    failover_wait: float = 2.0
    """Seconds that a client's command waits for another primary, before the client is closed."""

    ready_when: ReadyWhen = ReadyWhen.ALL
    """Which routes /readyz checks if the request names none."""

    zone: str | None = None
    """The zone that Keyrail is in, for rules that prefer replicas of the same zone; None if it is not known."""

    upstream_silence: float = 3.0
    """Seconds without a reply of Redis after which its route is not ready; 0 turns the health checks off."""

    upstream_connections: int = 4
    """Shared upstream connections of each pool."""

    private_connections: int = 10_000
    """The most upstream connections that one worker gives to single clients, per route."""

    max_clients: int = 0
    """The most clients of one worker, over all routes; 0 means as many as the limit of open files allows."""

    client_idle_timeout: float = 0.0
    """Seconds without a command after which a client is closed; 0 means never, the default of Redis."""

    client_keepalive: int = CLIENT_IDLE
    """Seconds without traffic after which TCP probes whether a client is still there; 0 means never."""

    client_output_limit: int = 8 * 1024 * 1024
    """Bytes of replies that may wait for one client that does not read, before it is closed."""

    buffer_limit: int = 1024 * 1024 * 1024
    """Bytes that may wait for all clients of one worker together, before those with the most are closed."""

    client_query_limit: int = 1024 * 1024 * 1024
    """Bytes of a client's unfinished command before it is closed; the default of Redis."""

    log_format: LogFormat = LogFormat.TEXT
    """How Keyrail writes its lines on standard error."""

    log_level: LogLevel = LogLevel.INFO
    """The least urgent lines on standard error that are written."""

    violations: ViolationsSettings | None = None
    """None writes no violations."""

    redact: Redact = Redact.HASH
    """How keys are shown in violations and samples."""

    incidents: Path | None = None
    """The file that keeps incidents over a restart."""

    watch: bool = True
    """Reload the policies when their files change."""

    policy_tests: PolicyTests = PolicyTests.WARN
    """What happens if a policy's own tests fail at the start or at a reload."""

    state_dir: Path | None = None
    """The folder that keeps the kill switch, remedies and evidence over a restart."""

    state_size: int = 64 << 20
    """Bytes that the evidence may use: in that folder or, without one, in memory."""

    admin_token_file: Path | None = None
    """Has the token of the admin port. Without it, requests about traffic and for changes are only for loopback."""

    secret: bytes = field(default_factory=lambda: os.urandom(16), repr=False, compare=False)
    """The key of the hashes of Redis keys: new at each start, the same in all workers."""

    traces: int = 50
    """Commands that one worker traces, per route and second: 30 to 100 microseconds each. 0 for none."""

    traffic_memory: int = MEMORY
    """Bytes that the supervisor uses for the last hour's traffic statistics of each route."""

    @property
    def redaction(self) -> Redaction:
        """How keys are shown."""
        return Redaction(self.redact, self.secret)
