"""The checks of `keyrail doctor`: each examines one thing, and returns a finding with what to do about it."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import hiredis

from proxy.cli.doctor.examination import Examination, admits_anybody
from proxy.net.config.address import Verify
from proxy.net.config.settings import PolicySource, RouteSettings, Settings
from proxy.net.connection import lacking
from proxy.net.connection.engine import complete_table, is_replica
from proxy.policy.compile import needs_of
from proxy.policy.precedence import is_active
from proxy.server.exposure import ASK_CLIENTS, GIVE_CA, INTERCEPTED, anybody_acts_as, lets_anybody_in, on_this_machine
from proxy.server.open_files import within

_OLDEST = (6, 2)
_FEW_CLIENTS = 1000
_LATE = 1.0
"""Seconds by which clocks may differ. Dates in policies and TTLs stated as points in time depend on the clocks."""


class Gravity(IntEnum):
    """The gravity of a finding; the worst one is the exit status."""

    OK = 0
    WARN = 1
    FAIL = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check, and its remedy."""

    gravity: Gravity
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        advice = f"\n     {self.remedy}" if self.remedy else ""
        return f"{self.gravity.name:4} {self.text}{advice}"


Check: TypeAlias = Callable[[Examination], Awaitable[Finding]]


def ok(text: str) -> Finding:
    """Nothing to do."""
    return Finding(Gravity.OK, text)


def warn(text: str, remedy: str) -> Finding:
    """Keyrail would serve, but the setup has a risk."""
    return Finding(Gravity.WARN, text, remedy)


def fail(text: str, remedy: str) -> Finding:
    """Keyrail would not serve, or commands would fail."""
    return Finding(Gravity.FAIL, text, remedy)


async def check_version(seen: Examination) -> Finding:
    engine = seen.engine
    known = f"{engine.name} {engine.version_text}".strip()
    if engine.version is None:
        return warn(f"the version of {known} is unknown", "Keyrail is tested with Redis 6.2, 7.0 and Valkey 9.1")
    if engine.version < _OLDEST:
        return warn(f"{known} is older than the versions that Keyrail is tested with", "upgrade to Redis 6.2 or later")
    return ok(f"{known}")


async def check_cluster(seen: Examination) -> Finding:
    if seen.engine.cluster:
        return ok("a node of a cluster: serve finds the others, and presents the cluster as one Redis")
    return ok("not a cluster")


async def check_role(seen: Examination) -> Finding:
    if await is_replica(seen.upstream):
        return fail("it is a replica: writes are answered READONLY", "point --upstream at the primary")
    return ok("it is a primary")


async def check_permissions(seen: Examination) -> Finding:
    needs = needs_of(seen.policy, seen.engine.table)
    found = await seen.probed(needs)
    if found.untold:
        return warn(lacking.not_told(found.untold, lacking.WITHOUT_MULTI), "allow them (ACL SETUSER … +multi +discard)")
    unknown = [lacking.not_known(seen.engine, name, found.able) for name in sorted(found.unknown)]
    if found.unclear:
        return warn(
            "; ".join([lacking.not_told(found.unclear, lacking.UNCLEAR), *unknown]),
            "examine the primary, once it has loaded its data",
        )
    forbidden = sorted(needs - found.able - found.unknown)
    if forbidden:
        allow = " ".join(f"+{name.lower()}" for name in forbidden)
        return warn(
            "; ".join([lacking.not_allowed(forbidden), *unknown]),
            f"allow them (ACL SETUSER … {allow}), or expect the slower ways that docs/guardrails.md describes",
        )
    if not all(lacking.has_substitute(name, found.able) for name in found.unknown):
        return warn("; ".join(unknown), "upgrade Redis, or undo its rename-command")
    if unknown:
        return ok("; ".join(unknown))
    return ok(
        f"Redis has all commands that rules send, and the user may run them: {', '.join(sorted(needs)) or 'none'}"
    )


async def check_renamed(seen: Examination) -> Finding:
    """Whether Redis calls its commands by the names that rules use."""
    await complete_table(seen.upstream, seen.engine, seen.engine.table)
    if seen.engine.features_off:
        return warn("; ".join(seen.engine.features_off), "allow COMMAND, or start serve with --aliases")
    return ok("Redis calls all commands by the names that rules use")


async def check_eviction(seen: Examination) -> Finding:
    how, most = await seen.setting("maxmemory-policy"), await seen.setting("maxmemory")
    if how is None or most is None:
        return warn(
            "Keyrail cannot read the eviction policy: CONFIG GET is not allowed", "check that it suits the TTL rules"
        )
    lifetimes = any(rule.settings.expires_keys and is_active(seen.policy, rule) for rule in seen.policy.rules)
    if most == "0":
        return warn("maxmemory is 0: Redis grows until the operating system kills it", "set maxmemory")
    if how.startswith("volatile") and not lifetimes:
        return warn(
            f"{how} evicts only keys with a TTL, and no rule of the policy gives keys a TTL",
            "add a lifetime rule, or use allkeys-lru",
        )
    if how == "noeviction" and lifetimes:
        return warn(
            "noeviction refuses writes (OOM) when memory is full, although the policy gives keys a TTL",
            "for a cache use volatile-ttl or allkeys-lru; for a database alert on used_memory",
        )
    return ok(f"maxmemory {most}, {how}")


async def check_connections(seen: Examination) -> Finding:
    most, now = await seen.setting("maxclients"), await seen.info("clients", "connected_clients")
    if most is None or now is None:
        return warn(
            "Keyrail cannot read maxclients: CONFIG GET or INFO is not allowed",
            "check that it is above the number of connections that Keyrail opens",
        )
    left = int(most) - int(now)
    if left < _FEW_CLIENTS:
        return warn(
            f"Redis takes {left} more connections (maxclients {most}, {now} are connected)",
            "raise maxclients, or lower --private-connections: a client that needs one gets Redis's error",
        )
    return ok(f"Redis takes {left} more connections")


async def check_files(seen: Examination) -> Finding:
    route = RouteSettings("default", (), seen.address, PolicySource())
    clients = within(Settings((route,)), seen.files).max_clients
    text = f"the limit of {seen.files} open files allows {clients} clients for each worker"
    if clients < _FEW_CLIENTS:
        return warn(text, "raise it: ulimit -n, LimitNOFILE of systemd, --ulimit of Docker")
    return ok(text)


async def check_tls(seen: Examination) -> Finding:
    tls = seen.address.tls
    if tls is not None and tls.verify is Verify.NONE:
        return warn(INTERCEPTED, GIVE_CA)
    if tls is None and not on_this_machine(seen.address):
        secret = " and the password" if seen.address.password is not None else ""
        return warn(f"data{secret} travel without TLS", "use rediss://, or keep Keyrail on the same host or network")
    return ok("TLS" if tls is not None else "no TLS on this machine alone")


async def check_clock(seen: Examination) -> Finding:
    before = time.time()
    reply = await seen.ask(["TIME"])
    if isinstance(reply, hiredis.ReplyError):
        return warn("Keyrail cannot compare the clocks: TIME is not allowed", "check that both machines run NTP")
    theirs = int(reply[0]) + int(reply[1]) / 1e6
    away = max(before - theirs, theirs - time.time(), 0.0)
    if away > _LATE:
        return warn(
            f"the clocks are {away:.1f} s apart", "run NTP on both: EXPIREAT and dates in policies depend on it"
        )
    return ok("the clocks agree")


async def check_default_user(seen: Examination) -> Finding:
    if not await admits_anybody(seen.address, seen.seconds):
        return ok("the default user has a password, or is off")
    remedy = "set requirepass or an ACL, and give Keyrail the password: clients of Redis itself bypass every rule"
    if on_this_machine(seen.address) and seen.address.password is None:
        return warn("Redis asks for no password; it is on this machine", remedy)
    return warn("Redis asks for no password", remedy)


def check_clients(seen: Examination) -> Finding:
    """Whether clients must log in; only if listeners are given."""
    route = RouteSettings("default", seen.listeners, seen.address, PolicySource())
    open_to_all = lets_anybody_in(route)
    if open_to_all:
        return warn(anybody_acts_as(open_to_all[0], seen.address), ASK_CLIENTS)
    return ok("clients beyond this machine have to log in, or to show a certificate")


CHECKS: tuple[Check, ...] = (
    check_version,
    check_cluster,
    check_role,
    check_permissions,
    check_eviction,
    check_connections,
    check_files,
    check_tls,
    check_clock,
    check_default_user,
)
