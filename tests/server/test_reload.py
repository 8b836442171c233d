"""Policies that cannot be in force: Keyrail reports them and goes on."""

import pytest

from proxy.net.config.address import UpstreamAddress
from proxy.net.config.settings import PolicySource, RouteSettings
from proxy.policy_yaml.errors import PolicyError
from proxy.server.reload import read_policies


def test_a_packaged_policy_that_is_gone_is_an_error_like_any_other() -> None:
    # This happens while somebody installs Keyrail anew under a running one.
    gone = RouteSettings("r", (), UpstreamAddress(), PolicySource(name="gone"))
    with pytest.raises(PolicyError) as caught:
        read_policies([gone])
    (problem,) = caught.value.problems
    assert str(problem) == "packaged/gone.yaml: found nothing, expected a policy that comes with Keyrail"
