"""Real Sentinels for tests: a group that the tests of a file share, and one that a test may break."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import kind_named, rest_is_long
from tests.failover.group import RealGroup


@pytest.fixture(scope="module", params=rest_is_long("redis-7.0", "valkey-9.1"))
def group(request: pytest.FixtureRequest) -> Iterator[RealGroup]:
    """A primary, two replicas and three Sentinels. A test may fail it over, and leaves all of its servers running."""
    started = RealGroup(kind_named(str(request.param)))
    yield started
    started.close()
