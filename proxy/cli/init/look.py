"""What `keyrail init` learns from Redis, by the checks of `keyrail doctor`. It prints their findings."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from proxy.cli.doctor.checks import Check, Finding, check_cluster, check_permissions, check_renamed, check_version
from proxy.cli.doctor.diagnosis import examine
from proxy.cli.doctor.examination import Examination
from proxy.net.config.address import UpstreamAddress
from proxy.net.config.settings import PolicyKind, PolicySource
from proxy.net.connection.engine import Engine


def look(address: UpstreamAddress) -> Engine | None:
    """The engine; None if it cannot be reached."""
    found: list[Engine] = []

    async def check_engine(seen: Examination) -> Finding:
        found.append(seen.engine)
        return await check_version(seen)

    _print_findings(address, PolicySource(PolicyKind.NONE, "none"), (check_engine, check_cluster, check_renamed))
    if found:
        return found[0]
    print("The policy is written without it; run `keyrail doctor` later.")
    return None


def look_for_commands(address: UpstreamAddress, policy: Path) -> None:
    """Whether Redis has the commands that the rules of this policy send, and the user may run them."""
    _print_findings(address, PolicySource(PolicyKind.FILE, str(policy)), (check_permissions,))


def _print_findings(address: UpstreamAddress, source: PolicySource, checks: Sequence[Check]) -> None:
    for finding in asyncio.run(examine(address, source, checks=checks)):
        print(finding)
