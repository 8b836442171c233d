"""What several tests of the network side begin with."""

from __future__ import annotations

import pytest

from tests.net.replica_stage import Stage


@pytest.fixture(params=[0, 1], ids=["runs", "traced"])
def stage(request: pytest.FixtureRequest) -> Stage:
    """Commands are traced or not: then the session handles each of them."""
    return Stage(request.param)
