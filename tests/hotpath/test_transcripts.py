"""Recorded replies of real engines pass the upstream pipeline correctly: whole, byte by byte, and cut at every
place."""

import pytest

from tests.hotpath.bench import PIPELINE
from tests.transcripts.replay import load, play, shareable

RECORDED = load()


def test_there_is_a_recording_of_each_engine() -> None:
    assert {name.split(":")[0] for name in RECORDED} == {"valkey-9.1", "redis-8.2", "redis-7.0", "redis-6.2"}


@pytest.mark.parametrize("name", RECORDED)
def test_one_client_gets_its_replies(name: str) -> None:
    play(PIPELINE, RECORDED[name])


@pytest.mark.parametrize("name", [name for name in RECORDED if shareable(RECORDED[name])])
def test_three_clients_on_one_upstream_get_each_their_own(name: str) -> None:
    play(PIPELINE, RECORDED[name], clients=3)
