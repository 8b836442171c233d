"""docs/operations.md, the table of faults: each is injected under three policies, and its row is true.

A row says where and how soon a fault is seen, and what a client gets that sends a read, or a write, once it is. When
the fault is mended, all is as before.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.conftest import rest_is_long
from tests.failures.redis_faults import REDIS_FAULTS
from tests.failures.surrounding_faults import SURROUNDING_FAULTS
from tests.failures.topology_faults import TOPOLOGY_FAULTS
from tests.keyrail_process import DIRECT
from tests.readme.blocks import DOCS
from tests.resp import eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay tells of no fault")

FAULTS = {fault.text: fault for fault in (*REDIS_FAULTS, *TOPOLOGY_FAULTS, *SURROUNDING_FAULTS)}
QUICK = "Redis runs an endless script"
WELL = ("a reply", "a reply")
SLOWER = 5.0
"""How much longer than its row says it may take, on a busy machine."""
HURT_SECONDS = 60.0
"""Within which clients get what the row says, once the fault is seen: the breaker of `strict` takes 2 s to open."""


@pytest.mark.parametrize("fault", rest_is_long(QUICK, *(text for text in FAULTS if text != QUICK)))
@pytest.mark.parametrize("policy", rest_is_long("strict", "none", "default"))
def test_each_row_is_true(fault: str, policy: str, tmp_path: Path) -> None:
    row = FAULTS[fault]
    with row.stage(policy, tmp_path) as stage:
        eventually(lambda: stage.get() == WELL)
        stage.injected = time.monotonic()
        row.inject(stage)
        eventually(lambda: row.seen(stage))
        if row.seconds:
            assert time.monotonic() - stage.injected < row.seconds + SLOWER
        hurt = row.hurt_strict if policy == "strict" else row.hurt
        eventually(lambda: "; ".join(stage.get()) == hurt, HURT_SECONDS)
        row.mend(stage)
        eventually(lambda: stage.get() == WELL)
        eventually(lambda: stage.keyrail.http("/readyz") == (200, "ready\n"))
        assert stage.keyrail.metric("keyrail_out_of_step_total") == 0


def test_the_page_has_these_rows() -> None:
    table = (DOCS / "operations.md").read_text("utf-8").partition("| fault | seen in |")[2].partition("\n\n")[0]
    assert table.splitlines()[2:] == [fault.row for fault in FAULTS.values()]
