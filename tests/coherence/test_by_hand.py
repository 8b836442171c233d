"""The hunt for as many operations as wanted can be run."""

import pytest

from tests.coherence.by_hand import main
from tests.keyrail_process import DIRECT


@pytest.mark.skipif(DIRECT, reason="a relay has no cache")
def test_it_tells_what_it_has_done(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["400", "--seed", "2"]) == 0
    assert capsys.readouterr().out.startswith("400 operations, ")
