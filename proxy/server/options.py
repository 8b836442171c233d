"""Every option of `serve`: its name, the reader of its text, its help text.

An option ``client_output_limit`` is the flag ``--client-output-limit``, the environment variable
``KEYRAIL_CLIENT_OUTPUT_LIMIT`` and the config file's key ``client_output_limit``. From each source it arrives as text,
and the same function reads it; that function raises ValueError with the expected text.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from proxy.net.config.address import parse_listen, parse_upstream
from proxy.net.config.client_auth import read_client_auth
from proxy.net.config.settings import LogFormat, LogLevel, PolicyTests, Presented, ReadFrom, ReadyWhen
from proxy.server.option_readers import (
    PACKAGED_POLICIES,
    count,
    read_admin,
    read_advertised,
    read_aliases,
    read_embedded,
    read_file,
    read_keepalive,
    read_policy,
    read_positive_seconds,
    read_seconds,
    read_size,
    read_state_size,
    read_switch,
    read_traffic_memory,
    read_violations,
    read_zone,
    word_of,
)
from proxy.traffic.redaction import Redact

ENVIRONMENT_PREFIX = "KEYRAIL_"


class OptionScope(Enum):
    """The scope of an option."""

    ROUTE = "route"
    """About one route; on the command line and in the environment, about the only route."""

    GROUP = "group"
    """About the whole process group: a field of Settings."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option. ``repeatable`` ones hold a list; a ``switch`` needs no value on the command line; a ``mapping`` is
    text such as ``A=B,C=D``, and may be a mapping in the config file."""

    name: str
    scope: OptionScope
    read: Callable[[str], object]
    metavar: str
    help: str
    repeatable: bool = False
    switch: bool = False
    mapping: bool = False

    @property
    def flag(self) -> str:
        """The option on the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """The option in the environment."""
        return ENVIRONMENT_PREFIX + self.name.upper()


OPTIONS: tuple[Option, ...] = (
    Option(
        "listen",
        OptionScope.ROUTE,
        parse_listen,
        "URL",
        "where clients connect: redis://HOST:PORT (default redis://127.0.0.1:6380), "
        "rediss://HOST:PORT?certificate=FILE&key=FILE[&client_ca=FILE], or unix:///path; repeatable",
        repeatable=True,
    ),
    Option(
        "upstream",
        OptionScope.ROUTE,
        parse_upstream,
        "URL",
        "the Redis behind: redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE] (default redis://127.0.0.1:6379), "
        "rediss://…, unix:///path, a cluster: redis+cluster://HOST1:PORT,HOST2:PORT, or Sentinels: "
        "redis+sentinel://HOST1:PORT,HOST2:PORT/NAME; ?password_file=FILE reads the password from a file",
    ),
    Option(
        "client_auth",
        OptionScope.ROUTE,
        read_client_auth,
        "none|upstream",
        "upstream: each client must log in with AUTH or HELLO, and Redis checks the password (default none); a "
        "listener's URL can override it: ?client_auth=none",
    ),
    Option(
        "client_password_file",
        OptionScope.ROUTE,
        read_file,
        "FILE",
        "each client must log in with a password of this file (each line PASSWORD or USER PASSWORD); Keyrail checks it",
    ),
    Option(
        "embedded",
        OptionScope.ROUTE,
        read_embedded,
        "on|off|cluster",
        "start a private Valkey as the upstream, or a cluster of three with a replica each, under the policy 'tour'",
        switch=True,
    ),
    Option(
        "present",
        OptionScope.ROUTE,
        word_of(Presented),
        "single|cluster",
        "how clients see a cluster: as one Redis, or as a cluster of Keyrails (default single)",
    ),
    Option(
        "advertise",
        OptionScope.ROUTE,
        read_advertised,
        "HOST:PORT[,…]",
        "with --present cluster: the addresses of all Keyrails, as clients reach them",
    ),
    Option(
        "policy",
        OptionScope.ROUTE,
        read_policy,
        "FILE|none",
        f"the policy: a YAML file, none (transparent), or a packaged one: {', '.join(PACKAGED_POLICIES)}",
    ),
    Option(
        "read_from",
        OptionScope.ROUTE,
        word_of(ReadFrom),
        "primary|replicas",
        "replicas: replicas that are at most a second behind answer reads (default primary); a policy of your own says "
        "that with replica_reads",
    ),
    Option(
        "aliases",
        OptionScope.ROUTE,
        read_aliases,
        "NAME=NEW[,…]",
        "with rename-command in redis.conf: what Redis calls a command, as in FLUSHALL=ADMINFLUSHALL; Keyrail judges "
        "it as that command",
        mapping=True,
    ),
    Option(
        "zone",
        OptionScope.GROUP,
        read_zone,
        "NAME",
        "where Keyrail is: one of the policy's zones; rules with prefer: [same-zone] read from replicas in it",
    ),
    Option(
        "admin",
        OptionScope.GROUP,
        read_admin,
        "HOST:PORT|off",
        "the admin HTTP port: /healthz /readyz /metrics /hotkeys /incidents /rules /policy (default 127.0.0.1:9121)",
    ),
    Option("workers", OptionScope.GROUP, count(1, 256), "N", "worker processes (default 1)"),
    Option(
        "pooling",
        OptionScope.GROUP,
        read_switch,
        "on|off",
        "share upstream connections among clients (default on)",
    ),
    Option(
        "drain",
        OptionScope.GROUP,
        read_seconds,
        "TIME",
        "how long pending replies are flushed when Keyrail stops (default 10s)",
    ),
    Option(
        "shutdown_delay",
        OptionScope.GROUP,
        read_seconds,
        "TIME",
        "how long Keyrail still accepts clients after SIGTERM, while /readyz answers 503 (default 0)",
    ),
    Option(
        "accept_patience",
        OptionScope.GROUP,
        read_seconds,
        "TIME",
        "how long clients are taken to wait before they give up a command that Keyrail has not read; later, one that "
        "could change something does not run (default 1s; 0: they never give up)",
    ),
    Option(
        "ready_when",
        OptionScope.GROUP,
        word_of(ReadyWhen),
        "all|any",
        "whether /readyz needs all routes to be ready, or any (default all); /readyz?route=NAME is about one",
    ),
    Option(
        "upstream_silence",
        OptionScope.GROUP,
        read_seconds,
        "TIME",
        "how long a PING to Redis may take before the route is not ready (default 3s; 0 sends no PING)",
    ),
    Option(
        "upstream_timeout",
        OptionScope.GROUP,
        read_seconds,
        "TIME",
        "how long Redis may take for a reply before the client gets an error and is disconnected; not for blocking "
        "commands (default 0: no limit)",
    ),
    Option(
        "connect_timeout",
        OptionScope.GROUP,
        read_positive_seconds,
        "TIME",
        "how long connecting to an upstream may take (default 5s)",
    ),
    Option(
        "failover_wait",
        OptionScope.GROUP,
        read_seconds,
        "TIME",
        "how long commands wait for a new primary before their clients are disconnected (default 2s)",
    ),
    Option(
        "upstream_connections",
        OptionScope.GROUP,
        count(1, 10_000),
        "N",
        "shared upstream connections of each pool (default 4)",
    ),
    Option(
        "private_connections",
        OptionScope.GROUP,
        count(1, 1_000_000),
        "N",
        "the most private upstream connections of clients, per worker and route (default 10000)",
    ),
    Option(
        "max_clients",
        OptionScope.GROUP,
        count(0, 1_000_000),
        "N",
        "the most clients of each worker (default 0: as many as the limit of open files allows; the ready line has it)",
    ),
    Option(
        "client_idle_timeout",
        OptionScope.GROUP,
        read_seconds,
        "TIME",
        "close a client that sends no command for this time (default 0: never)",
    ),
    Option(
        "client_keepalive",
        OptionScope.GROUP,
        read_keepalive,
        "TIME",
        "probe a client by TCP after this time without traffic (default 300s; 0: never); shorter than the time after "
        "which the network drops idle connections",
    ),
    Option(
        "client_output_limit",
        OptionScope.GROUP,
        read_size,
        "SIZE",
        "close a client with more unread reply bytes than this (default 8MB)",
    ),
    Option(
        "client_query_limit",
        OptionScope.GROUP,
        read_size,
        "SIZE",
        "close a client with an unfinished command larger than this (default 1GB)",
    ),
    Option(
        "buffer_limit",
        OptionScope.GROUP,
        read_size,
        "SIZE",
        "close the clients with the largest buffers if the buffers of a worker's clients exceed this (default 1GB)",
    ),
    Option(
        "traces",
        OptionScope.GROUP,
        count(0, 100_000),
        "N",
        "commands that one worker traces, per route and second, for latency, sizes and clients (default 50)",
    ),
    Option(
        "traffic_memory",
        OptionScope.GROUP,
        read_traffic_memory,
        "SIZE",
        "memory for the last hour's traffic statistics of each route, in the supervisor (default 64MB, at least 32MB)",
    ),
    Option(
        "log_format",
        OptionScope.GROUP,
        word_of(LogFormat),
        "text|json",
        "the form of Keyrail's log lines on standard error, each with time and level (default text)",
    ),
    Option(
        "log_level",
        OptionScope.GROUP,
        word_of(LogLevel),
        "debug|info|warning|error",
        "the least urgent lines that Keyrail logs (default info); POST /log_level on the admin port changes it at run "
        "time",
    ),
    Option(
        "violations",
        OptionScope.GROUP,
        read_violations,
        "stderr|FILE|off",
        "log violations as lines of JSON, a few per rule and second (default off)",
    ),
    Option(
        "redact",
        OptionScope.GROUP,
        word_of(Redact),
        "shape|hash|none",
        "how violations and samples show a key: its shape, the shape and a keyed hash, or the key (default hash)",
    ),
    Option(
        "incidents",
        OptionScope.GROUP,
        read_file,
        "FILE",
        "keep incidents (hot keys, large values, clients that hinder others) for a week, as lines of JSON in this file",
    ),
    Option(
        "watch",
        OptionScope.GROUP,
        read_switch,
        "on|off",
        "reload the policies when their files change (default on)",
    ),
    Option(
        "policy_tests",
        OptionScope.GROUP,
        word_of(PolicyTests),
        "warn|refuse|off",
        "if a policy's own tests fail, at the start or at a reload: log them (default), or refuse the policy, so that "
        "Keyrail does not start or the old policy stays",
    ),
    Option(
        "state_dir",
        OptionScope.GROUP,
        read_file,
        "DIR",
        "keep the kill switch, remedies and evidence in this folder, so that they survive a restart; it is made if "
        "it is missing",
    ),
    Option(
        "state_size",
        OptionScope.GROUP,
        read_state_size,
        "SIZE",
        "what evidence may use of that folder, or of memory without one (default 64MB, at least 1MB)",
    ),
    Option(
        "admin_token_file",
        OptionScope.GROUP,
        read_file,
        "FILE",
        "require this file's token on the admin port, except for /healthz, /readyz and the page's files; without it, "
        "/hotkeys, /rules, /policy and all POSTs answer only if the port is bound to loopback",
    ),
)

RETIRED = {
    "state": "use --state-dir DIR (state_dir) instead of a file: to keep what your file has, copy it to DIR/state.json"
}
"""Options that are no more, by name, and what to do instead."""
