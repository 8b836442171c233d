"""A worker imports nothing that only the supervisor needs: each start and each replacement would take longer for it."""

import pickle
import subprocess
import sys

import pytest

from proxy.policy.load import load_policy
from tests.keyrail_process import environment, packaged_policy

SUPERVISORS = {"aiohttp", "prometheus_client", "yaml"}
COMPILE = """
import pickle, sys
import proxy.server.worker
from proxy.commands.table import STANDARD
from proxy.policy.compile import PolicyCompiler

PolicyCompiler(pickle.load(sys.stdin.buffer), STANDARD).bind(None)
print(*sys.modules)
"""


@pytest.mark.parametrize("name", ["default.yaml", "strict.yaml"])
def test_a_worker_that_is_told_a_policy_imports_nothing_of_the_supervisors(name: str) -> None:
    policy = pickle.dumps(load_policy(packaged_policy(name)))
    found = subprocess.run(
        [sys.executable, "-c", COMPILE], input=policy, capture_output=True, check=True, env=environment()
    )
    imported = set(found.stdout.decode().split())
    assert "proxy.server.worker" in imported
    assert not imported & SUPERVISORS
