"""The options about reads from replicas: ``--read-from`` and ``--zone``."""

from collections.abc import Iterable
from dataclasses import replace

from proxy.net.config.settings import ReadFrom
from proxy.policy.model import Mode, Policy, PolicyRule, Stage
from proxy.policy_yaml.errors import Where
from proxy.rules.guardrails import READS_FROM_REPLICAS
from proxy.rules.rule import Wording

RULE = "read-from-replicas"
"""The name of the rule that ``--read-from replicas`` is, where rules are shown."""
_WHERE = Where("--read-from")


def reading_from(policy: Policy, read_from: ReadFrom) -> Policy:
    """The policy of a route, with the rule that ``--read-from`` adds."""
    if read_from is ReadFrom.PRIMARY:
        return policy
    rule = PolicyRule(RULE, READS_FROM_REPLICAS, Stage(Mode.ENFORCE, _WHERE), Wording(), _WHERE)
    return replace(policy, rules=(*policy.rules, rule))


def zone_warnings(policies: Iterable[Policy], zone: str | None) -> list[str]:
    """What is in vain about zones: a line for each policy that asks for replicas of a zone that it does not know."""
    warnings = []
    described = [policy for policy in policies if policy.zones]
    for policy in described:
        if zone not in policy.zones.networks:
            known = ", ".join(policy.zones.networks)
            lacking = f"--zone {zone} is none of its zones" if zone else "--zone does not say where Keyrail is"
            warnings.append(f"{policy.source}: prefer: [same-zone] has no effect: {lacking} ({known})")
    if zone and not described:
        warnings.append(f"--zone {zone} has no effect: no policy has zones")
    return warnings
