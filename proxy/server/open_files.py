"""The limit of open files, and the parts of it for clients and upstream connections.

Each client takes an open file of its worker, and one more while it has its own upstream connection (transactions with
WATCH, subscriptions, blocking commands). Clients never use the part that connections to Redis need.
"""

import resource
from collections.abc import Callable
from dataclasses import replace

from proxy.net.config.settings import Settings

_OF_THE_PROCESS = 64
"""Files that a worker itself needs: the interpreter, the event loop, the channel to the supervisor, policies."""
_POOLS_EXPECTED = 4
"""Pools of shared connections (by database, protocol and user) in each route that have files reserved."""


def allow_many_files(warn: Callable[[str], None]) -> int:
    """Raise the limit of open files of this process and its workers as far as possible, and return it."""
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    except (OSError, ValueError):
        warn("cannot raise the limit of open files: connections may be refused early")
        return soft
    return most


def open_files_limit() -> float:
    """How many files this process, and each worker, may open now; infinite if the system sets no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return float("inf") if soft == resource.RLIM_INFINITY else soft


def within(settings: Settings, files: int) -> Settings:
    """The settings, with limits of connections that fit into ``files`` open files of each worker."""
    routes = len(settings.routes)
    listeners = sum(len(route.listeners) for route in settings.routes) * settings.workers
    left = max(2, files - _OF_THE_PROCESS - listeners - routes * _POOLS_EXPECTED * settings.upstream_connections)
    wanted = settings.max_clients or left
    private = min(settings.private_connections * routes, max(left - left // 2, left - wanted))
    return replace(
        settings,
        max_clients=max(1, min(wanted, left - private)),
        private_connections=max(1, private // routes),
    )


def summary(asked: Settings, given: Settings, files: int) -> str:
    """The limits, as a notice to the operator."""
    text = f"up to {given.max_clients} clients for each worker"
    if given.max_clients < asked.max_clients:
        return f"{text}, not {asked.max_clients}: the limit of {files} open files allows no more"
    if asked.max_clients:
        return f"{text}, as --max-clients says"
    return f"{text}, as the limit of {files} open files allows"
