"""What the prefix of a tenant costs is measured on commands of a tenant."""

import os
import shutil
from pathlib import Path

import pytest

from loadtest import targets, tenants
from loadtest.limits import KEYRAIL_STRICT
from loadtest.placement import PLACEMENTS
from loadtest.quick import Course, Sample
from loadtest.report import tenants_markdown
from loadtest.targets import REPOSITORY
from proxy.policy.load import load_policy


def test_a_tenant_stands_beside_a_client_of_none() -> None:
    def sample(target: str, pipeline: int, cpu: float) -> Sample:
        return Sample("MGET", pipeline, target, 0, 1.0, 0.1, 0.2, cpu, 1.0)

    samples = [sample(tenants.NO_RULES, 1, 8.0), sample(tenants.TENANT_NO_RULES, 1, 8.8)]
    samples += [sample(KEYRAIL_STRICT, 16, 2.0), sample(tenants.TENANT_STRICT, 16, 2.2)]
    samples.append(sample(tenants.WRITTEN, 16, 2.1))
    page = tenants_markdown(samples, {"machine": "test"})
    assert (
        "| MGET P=1: proxy CPU of keyrail, no rules, a tenant, of keyrail, no rules's | ≤ 1.05 | 1.10 (1.10–1.10) |"
        in page
    )
    assert "| MGET P=16: proxy CPU of keyrail strict, a tenant, of keyrail strict's | ≤ 1.15 | 1.10 (" in page
    assert page.rstrip().endswith("| met | 1.05 (1.05–1.05) |")


@pytest.mark.parametrize("policy", ["bench", "default", "observe", "strict"])
def test_a_packaged_policy_can_have_the_tenant(policy: str, tmp_path: Path) -> None:
    text = (REPOSITORY / "policies" / f"{policy}.yaml").read_text("utf-8")
    file = tmp_path / "tenant.yaml"
    file.write_text(tenants.of_a_tenant(text), "utf-8")
    assert load_policy(file).tenants is not None


@pytest.mark.long
def test_each_way_is_measured() -> None:
    if shutil.which("redis-benchmark") is None or shutil.which("redis-server") is None:
        pytest.skip("redis-server and redis-benchmark are not installed here")
    course = Course(1, 0.01, PLACEMENTS["together"](frozenset(os.sched_getaffinity(0))))
    with tenants.all_targets("redis-server", targets.keyrail_program()) as (redis, ways):
        samples = list(tenants.rounds(redis, ways, course, lambda _: None))
    assert len(samples) == len(ways) * len(tenants.WORKLOADS)
    assert min(each.proxy_cpu for each in samples) > 0
