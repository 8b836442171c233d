"""One run of `keyrail doctor`: reads the policy, connects to Redis, and runs every check."""

import resource
from collections.abc import Sequence

from proxy.cli.doctor.checks import CHECKS, Check, Finding, check_clients, fail, warn
from proxy.cli.doctor.examination import Examination, connect, find_server
from proxy.net.config.address import UpstreamAddress
from proxy.net.config.settings import ListenerSettings, PolicySource, RouteSettings
from proxy.net.connection.connect import UpstreamRefusedError
from proxy.net.connection.engine import Engine
from proxy.net.connection.tls import TlsError, reason_of
from proxy.policy_yaml.errors import PolicyError
from proxy.server.reload import read_policies

_SECONDS = 5.0
"""Seconds for the connection, and for each reply."""


async def examine(
    address: UpstreamAddress,
    source: PolicySource,
    listeners: tuple[ListenerSettings, ...] = (),
    checks: Sequence[Check] = CHECKS,
) -> list[Finding]:
    """The findings of these checks; at least one."""
    try:
        (policy,) = read_policies([RouteSettings("default", (), address, source)])
    except PolicyError as error:
        return [fail(f"the policy is not valid: {problem}", "run keyrail check") for problem in error.problems]
    try:
        address, problem = await find_server(address, _SECONDS)
        opened = await connect(address, _SECONDS)
    except (OSError, ValueError, TlsError, UpstreamRefusedError) as error:
        advice = "check that it runs, and that address, TLS and password are right"
        return [fail(f"{address}: {reason_of(error, encrypted=address.tls is not None)}", advice)]
    doubtful = [warn(problem, "Keyrail follows a failover while a majority of the Sentinels agrees")] if problem else []
    if opened.unauthenticated:
        opened.upstream.abort()
        return [fail(f"{address} asks for a password", "give one: --upstream redis://USER@HOST?password_file=FILE")]
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    seen = Examination(address, policy, opened.upstream, opened.engine or Engine(), files, _SECONDS, listeners)
    try:
        found = doubtful + [await check(seen) for check in checks]
        return [*found, check_clients(seen)] if listeners else found
    except OSError as error:
        return [fail(f"{address}: {reason_of(error)}", "the connection was lost during the examination")]
    finally:
        opened.upstream.abort()
