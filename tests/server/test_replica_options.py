"""`--read-from replicas` is a rule that is always there, and zones that are in vain are told."""

from __future__ import annotations

from proxy.commands.table import STANDARD
from proxy.hotpath.plan.replica_reads import ReplicaTerms
from proxy.net.config.address import parse_upstream
from proxy.net.config.settings import PolicyKind, PolicySource, ReadFrom, RouteSettings
from proxy.server.reload import read_policies
from proxy.server.replica_options import zone_warnings
from tests.policy.given import compile_policy, policy
from tests.rules.given import command, context

ZONES = """
    zones: {eu-1a: [10.0.1.0/24], eu-1b: [10.0.2.0/24]}
    rules: {near: {replica_reads: {keys: ["*"], prefer: [same-zone]}}}
"""


def test_without_a_policy_of_ones_own_all_reads_are_moved() -> None:
    upstream = parse_upstream("redis://h:1")
    for source in (PolicySource(PolicyKind.NONE), PolicySource(PolicyKind.PACKAGED, "strict")):
        moved, kept = read_policies(
            [
                RouteSettings("a", (), upstream, source, read_from=ReadFrom.REPLICAS),
                RouteSettings("b", (), upstream, source),
            ]
        )
        assert compile_policy(moved, STANDARD).judge(command("GET a:b"), context()).replica == ReplicaTerms(1.0)
        assert compile_policy(kept, STANDARD).judge(command("GET a:b"), context()).replica is None
        assert str(moved.rules[-1].where) == "--read-from"


def test_zones_in_vain_are_told() -> None:
    described, other = policy(ZONES), policy("rules: {}")
    assert zone_warnings([described, other], "eu-1a") == []
    assert zone_warnings([other], None) == []
    assert zone_warnings([other], "eu-1a") == ["--zone eu-1a has no effect: no policy has zones"]
    for zone, why in (("us-1", "--zone us-1 is none of its zones"), (None, "--zone does not say where Keyrail is")):
        (warning,) = zone_warnings([described], zone)
        assert warning.endswith(f"policy.yaml: prefer: [same-zone] has no effect: {why} (eu-1a, eu-1b)")
