"""Zones that no rule asks for, and rules that prefer replicas of a zone where the policy says of none where they are.

Each is an error, since its author relies on it.
"""

from proxy.policy.model import Policy
from proxy.policy_yaml.errors import Where
from proxy.policy_yaml.yaml_source import Problems


def find_unused_zones(policy: Policy, where: Where, problems: Problems) -> None:
    """Note them; the zones are at `where`."""
    faulty = problems.faulty_rules()
    preferring = [rule for rule in policy.rules if rule.settings.prefers_zone and rule.name not in faulty]
    if problems.told_of("zones"):
        return
    for rule in preferring if not policy.zones else ():
        path = f"rules.{rule.name}.replica_reads.prefer"
        expected = "zones: {eu-1a: [10.0.1.0/24]} in the platform's file, too, which says where replicas are"
        problems.add(rule.where, path, "same-zone without zones", expected)
    if policy.zones and not preferring and not faulty:
        expected = "a rule that asks for them: replica_reads with prefer: [same-zone]"
        problems.add(where, "zones", "zones that no rule asks for", expected)
