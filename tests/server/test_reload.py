"""Policies that cannot be in force: Keyrail reports them and goes on."""

from dataclasses import replace
from pathlib import Path

import pytest

from proxy.net.address import UpstreamAddress
from proxy.net.settings import Embedded, PolicyKind, PolicySource, RouteSettings
from proxy.net.slot_map import Endpoint
from proxy.policy_yaml.errors import PolicyError
from proxy.server.reload import read_policies


def test_a_packaged_policy_that_is_gone_is_an_error_like_any_other() -> None:
    # This happens while somebody installs Keyrail anew under a running one.
    gone = RouteSettings("r", (), UpstreamAddress(), PolicySource(name="gone"))
    with pytest.raises(PolicyError) as caught:
        read_policies([gone])
    (problem,) = caught.value.problems
    assert str(problem) == "packaged/gone.yaml: found nothing, expected a policy that comes with Keyrail"


def test_a_local_cache_before_a_cluster_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("keyrail: 1\nrules: {hot-reads: {local_cache: {keys: ['*']}}}\n")
    one = RouteSettings("shop", (), UpstreamAddress(), PolicySource(PolicyKind.FILE, str(file)))
    assert len(read_policies([one])) == 1
    several = replace(one, upstream=UpstreamAddress(seeds=(Endpoint("127.0.0.1", 7000),)))
    for cluster in (several, replace(one, embedded=Embedded.CLUSTER)):
        with pytest.raises(PolicyError) as caught:
            read_policies([one, cluster])
        (problem,) = caught.value.problems
        assert "local_cache on route shop" in str(problem)
        assert "before a cluster there is no local cache" in str(problem)
    assert len(read_policies([replace(several, policy=PolicySource(name="tour"))])) == 1, "it is for any upstream"
    file.write_text("keyrail: 1\nrules: {hot-reads: {local_cache: {keys: ['*']}, mode: off}}\n")
    assert len(read_policies([several])) == 1
