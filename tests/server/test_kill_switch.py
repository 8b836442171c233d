"""The kill switch alone: its state file, and its end."""

import asyncio
import json
import time
from pathlib import Path
from random import Random
from typing import cast

import pytest

from proxy.server.kill_switch import KillSwitch, standing_pause
from proxy.server.state_file import StateError, StateFile
from proxy.server.workers import Workers
from tests.conftest import seeds


class FakeWorkers:
    """Takes the switch's orders."""

    def __init__(self, paused: bool) -> None:
        self.paused = paused
        self.orders: list[bool] = []
        self.followed = asyncio.Event()

    async def pause(self, paused: bool) -> None:
        self.orders.append(paused)
        self.followed.set()


def switch(file: Path | None = None) -> tuple[KillSwitch, FakeWorkers]:
    state = StateFile(file)
    pause = standing_pause(state)
    workers = FakeWorkers(pause is not None)
    return KillSwitch(cast("Workers", workers), state, pause), workers


def test_it_is_kept_and_taken_up_again(tmp_path: Path) -> None:
    async def live() -> None:
        file = tmp_path / "state"
        first, workers = switch(file)
        assert (first.on, workers.paused) == (False, False)
        await first.turn_on(600.0, "INC-7")
        assert workers.orders == [True]
        first.close()
        second, workers = switch(file)
        assert (second.on, workers.paused) == (True, True)
        assert second.status()["because"] == "INC-7"
        since = second.status()["since"]
        await second.turn_on(900.0, "still")
        assert second.status()["since"] == since, "it has been on all the time"
        await second.turn_off()
        third, workers = switch(file)
        assert (third.on, workers.paused) == (False, False)

    asyncio.run(live())
    assert [each.name for each in tmp_path.iterdir()] == ["state"]


def test_it_ends_by_itself_also_while_nobody_was_there(tmp_path: Path) -> None:
    async def live() -> None:
        file = tmp_path / "state"
        now = time.time()
        file.write_text(json.dumps({"kill_switch": {"since": now - 9, "until": now - 1, "because": ""}}))
        over, workers = switch(file)
        assert (over.on, workers.paused) == (False, False)
        await over.turn_on(0.001, "")
        workers.followed.clear()
        await workers.followed.wait()
        assert (over.on, workers.orders) == (False, [True, False])

    asyncio.run(live())


@pytest.mark.parametrize("seed", seeds(20))
def test_what_is_said_to_survive_a_restart_does(tmp_path: Path, seed: int) -> None:
    """Whatever is written while its folder is there or away: what counts as kept is what the next process reads."""
    random = Random(seed)
    folder, away = tmp_path / "there", tmp_path / "away"
    folder.mkdir()
    state = StateFile(folder / "state")

    async def live() -> None:
        for number in range(30):
            if random.random() < 0.3:
                folder.rename(away) if folder.exists() else away.rename(folder)
            part = random.choice(["kill_switch", "remedies"])
            try:
                await state.put(part, number)
                written = True
            except OSError:
                written = False
            assert state.kept == written
            if written:
                assert StateFile(folder / "state").part(part) == number

    asyncio.run(live())


def test_a_switch_that_could_not_be_written_does_not_claim_to_survive(tmp_path: Path) -> None:
    async def live() -> None:
        folder = tmp_path / "there"
        folder.mkdir()
        made, _ = switch(folder / "state")
        assert made.status()["survives_restart"]
        folder.rmdir()
        with pytest.raises(OSError, match="No such file"):
            await made.turn_on(600.0, "INC-7")
        assert (made.on, made.status()["survives_restart"]) == (True, False)
        folder.mkdir()
        await made.turn_on(600.0, "INC-7")
        assert made.status()["survives_restart"]
        made.close()

    asyncio.run(live())


def test_a_day_is_the_most(tmp_path: Path) -> None:
    async def live() -> None:
        long, _ = switch()
        before = time.time()
        await long.turn_on(1e9, "")
        assert json.loads(json.dumps(long.status()))["survives_restart"] is False
        until = long.status()["until"]
        assert until <= time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(before + 86400 + 60))
        long.close()

    asyncio.run(live())


@pytest.mark.parametrize("text", ["{}", "no json", '{"kill_switch": {"since": 1}}', "[]"])
def test_a_file_that_is_none_of_its_own(tmp_path: Path, text: str) -> None:
    async def live() -> None:
        (tmp_path / "state").write_text(text)
        with pytest.raises(StateError, match="not a state file"):
            switch(tmp_path / "state")
        with pytest.raises(StateError, match="missing or not writable"):
            switch(tmp_path / "none" / "state")

    asyncio.run(live())


def test_a_file_that_cannot_be_written_does_not_hold_the_switch_up(tmp_path: Path) -> None:
    async def live() -> None:
        folder = tmp_path / "folder"
        folder.mkdir()
        its, workers = switch(folder / "state")
        folder.rmdir()
        with pytest.raises(OSError, match="No such file"):
            await its.turn_on(60.0, "")
        assert its.on
        assert workers.orders == [True]
        its.close()

    asyncio.run(live())
