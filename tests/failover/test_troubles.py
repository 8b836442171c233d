"""Each trouble with Sentinels, a name or a deposed primary has one clear line in the log and in /readyz, and Keyrail
stays ready. `page/test_page_in_trouble.py` looks at the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.failover.troubles import staged
from tests.keyrail_process import DIRECT
from tests.resp import eventually

LOOKS = 5
"""So many more looks add no line."""
MOST_LINES = 3
"""That a trouble that comes and goes has in the log for a while."""
UNSEEN = {"all-down"}
"""Nobody sees that Keyrail looks."""


@pytest.mark.skipif(DIRECT, reason="a plain relay follows nobody")
def test_each_trouble_is_told(tmp_path: Path) -> None:
    with staged(tmp_path) as stage:
        said = len(stage.keyrail.stderr)
        lines = stage.begin()
        eventually(lambda: stage.told() == lines)
        before = {route: looks for route, looks in stage.looks().items() if route not in UNSEEN}
        eventually(lambda: all(stage.looks()[route] >= looks + LOOKS for route, looks in before.items()))
        eventually(lambda: stage.told() == lines)
        stage.mend()
        eventually(lambda: stage.told() == {})
        told = stage.keyrail.stderr[said:].splitlines()
        for route, line in lines.items():
            # A machine that is slow for a moment is another trouble, behind which this one is told again.
            assert 1 <= told.count(f"keyrail: route {route}: {line}") <= MOST_LINES
