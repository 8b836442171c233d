"""Every option of `serve`, once: its name, how its text is read, what it says in the help.

An option ``client_output_limit`` is the flag ``--client-output-limit``, the environment variable
``KEYRAIL_CLIENT_OUTPUT_LIMIT`` and the config file's key ``client_output_limit``. Whatever its source, it arrives
as text and is read by one function, which raises ValueError with what was expected.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from proxy.net.address import parse_listen, parse_upstream
from proxy.net.client_auth import read_client_auth
from proxy.server.option_readers import (
    PACKAGED_POLICIES,
    count,
    read_admin,
    read_embedded,
    read_file,
    read_log_format,
    read_policy,
    read_positive_seconds,
    read_ready_when,
    read_redact,
    read_seconds,
    read_size,
    read_switch,
    read_traffic_memory,
    read_violations,
)

ENVIRONMENT_PREFIX = "KEYRAIL_"


class OptionScope(Enum):
    """The scope of an option."""

    ROUTE = "route"
    """One route; on the command line and in the environment: the only one."""

    GROUP = "group"
    """The whole process group: a field of Settings."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option. ``repeatable`` ones hold a list; a ``switch`` needs no value on the command line."""

    name: str
    scope: OptionScope
    read: Callable[[str], object]
    metavar: str
    help: str
    repeatable: bool = False
    switch: bool = False

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
        "rediss://…, unix:///path, or a cluster: redis+cluster://HOST1:PORT,HOST2:PORT; ?password_file=FILE reads the "
        "password from a file",
    ),
    Option(
        "client_auth",
        OptionScope.ROUTE,
        read_client_auth,
        "none|upstream",
        "upstream: each client must log in with AUTH or HELLO, and Redis decides (default none); a listener's URL can "
        "say otherwise: ?client_auth=none",
    ),
    Option(
        "client_password_file",
        OptionScope.ROUTE,
        read_file,
        "FILE",
        "each client must log in with a password of this file, one to a line, or USER PASSWORD; Redis is not asked",
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
        "policy",
        OptionScope.ROUTE,
        read_policy,
        "FILE|none",
        f"the policy: a YAML file, none (transparent), or a packaged one: {', '.join(PACKAGED_POLICIES)}",
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
        "how long Keyrail goes on accepting clients after SIGTERM, while /readyz answers 503 (default 0)",
    ),
    Option(
        "ready_when",
        OptionScope.GROUP,
        read_ready_when,
        "all|any",
        "whether /readyz asks for all routes, or for one at least (default all); /readyz?route=NAME asks for one",
    ),
    Option(
        "upstream_silence",
        OptionScope.GROUP,
        read_seconds,
        "TIME",
        "how long Redis may leave a PING without an answer before the route is not ready (default 3s; 0 sends none)",
    ),
    Option(
        "upstream_timeout",
        OptionScope.GROUP,
        read_seconds,
        "TIME",
        "how long Redis may take for a reply before its client gets an error and is closed; not for commands that "
        "block (default 0: for ever)",
    ),
    Option(
        "connect_timeout",
        OptionScope.GROUP,
        read_positive_seconds,
        "TIME",
        "how long connecting to an upstream may take (default 5s)",
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
        "the most upstream connections of single clients, per worker and route (default 10000)",
    ),
    Option(
        "max_clients",
        OptionScope.GROUP,
        count(0, 1_000_000),
        "N",
        "the most clients of each worker (default 0: what the limit of open files allows, which the start says)",
    ),
    Option(
        "client_idle_timeout",
        OptionScope.GROUP,
        read_seconds,
        "TIME",
        "close a client that has sent no command for so long (default 0: never)",
    ),
    Option(
        "client_output_limit",
        OptionScope.GROUP,
        read_size,
        "SIZE",
        "close a client that leaves more than this unread (default 8MB)",
    ),
    Option(
        "client_query_limit",
        OptionScope.GROUP,
        read_size,
        "SIZE",
        "close a client whose unfinished command is larger than this (default 1GB)",
    ),
    Option(
        "buffer_limit",
        OptionScope.GROUP,
        read_size,
        "SIZE",
        "close the clients with the largest buffers when those of all clients of a worker exceed this (default 1GB)",
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
        read_log_format,
        "text|json",
        "how Keyrail writes its lines on standard error, each with its time and level (default text)",
    ),
    Option(
        "violations",
        OptionScope.GROUP,
        read_violations,
        "stderr|FILE|off",
        "tell each violation as a line of JSON, a few for each rule and second (default off)",
    ),
    Option(
        "redact",
        OptionScope.GROUP,
        read_redact,
        "shape|hash|none",
        "what violations and samples show of a key: its shape, the shape and a keyed hash, the key (default hash)",
    ),
    Option(
        "incidents",
        OptionScope.GROUP,
        read_file,
        "FILE",
        "keep incidents (hot keys, hot slots, large values) for a week, as lines of JSON in this file",
    ),
    Option(
        "watch",
        OptionScope.GROUP,
        read_switch,
        "on|off",
        "reload the policies when their files change (default on)",
    ),
    Option(
        "state",
        OptionScope.GROUP,
        read_file,
        "FILE",
        "keep the kill switch and remedies over a restart, in this file",
    ),
    Option(
        "admin_token_file",
        OptionScope.GROUP,
        read_file,
        "FILE",
        "ask for this file's token on the admin port, but for /healthz, /readyz and the empty page; without it, "
        "/hotkeys, /rules, /policy and whatever changes something answer only where the port is bound to loopback",
    ),
)
