"""Connection state, with several clients at once, behaves through Keyrail exactly as directly.

Proves: transactions (whole, in steps, aborted, watched), subscriptions in both protocols (a bare UNSUBSCRIBE, pushes
between replies, SUBSCRIBE inside MULTI), blocking commands and their client leaving, tracking with its pushes, CLIENT
REPLY, MONITOR, SELECT, AUTH and users, HELLO and RESET in the middle, QUIT: each client hears what it would hear
directly, in the same order, and nothing that belongs to another.
"""

from __future__ import annotations

import pytest

from tests.conftest import Fleet
from tests.differential.sequence import Stage, differences, families, sequences_of
from tests.differential.test_commands import Cleaner, report


@pytest.mark.parametrize("family", families())
def test_sequences(fleet: Fleet, engine_name: str, pooling: bool, family: str) -> None:
    direct, subject = fleet.engine(engine_name, "reference"), fleet.engine(engine_name)
    keyrail = fleet.keyrail(engine_name, pooling=pooling)
    cleaners = [Cleaner(direct), Cleaner(subject)]
    found: list[str] = []
    for sequence in sequences_of(family):
        if subject.kind.version < sequence.since:
            continue
        for cleaner in cleaners:
            cleaner.clean()
        expected = Stage(direct.address, direct).play(sequence)
        found += differences(sequence, expected, Stage(keyrail.address, subject).play(sequence))
    for cleaner in cleaners:
        cleaner.wire.close()
    report(found)
