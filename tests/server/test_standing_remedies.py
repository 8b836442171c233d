"""Remedies alone: their state file, and that nothing changes if a worker does not follow."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from proxy.policy.model import TRANSPARENT, Mode, Policy
from proxy.rules.limits.rule import LimitsSettings, Per
from proxy.rules.local_cache.remedy import key_cache
from proxy.rules.one_key import OneKey
from proxy.rules.rates import Rate
from proxy.server.reload import Reloader
from proxy.server.remedies import MOST_STANDING, Remedies, RemedyError, StandingRemedies
from proxy.server.state_file import StateError, StateFile
from proxy.server.workers import Workers
from proxy.traffic.redaction import Redact, Redaction

KEY = b"product:\xff:stock"
RATE = Rate(5, 1, 5)


POLICIES: tuple[Policy, ...] = (TRANSPARENT, TRANSPARENT)


class FakeWorkers:
    def redaction(self, _route: int) -> Redaction:
        return Redaction(Redact.SHAPE)


class FakeReloader:
    """Puts in force what is joined, or has a problem."""

    def __init__(self, join: Callable[[tuple[Policy, ...]], tuple[Policy, ...]]) -> None:
        self.join = join
        self.problem: str | None = None
        self.in_force: tuple[str, ...] = ()
        self.renewed = asyncio.Event()

    async def renew(self) -> str | None:
        if self.problem is None:
            self.in_force = tuple(rule.name for policy in self.join(POLICIES) for rule in policy.rules)
        self.renewed.set()
        return self.problem


def remedies(file: Path | None = None) -> tuple[Remedies, FakeReloader]:
    standing = StandingRemedies(("one", "two"), StateFile(file))
    reloader = FakeReloader(standing.join)
    return Remedies(cast("Workers", FakeWorkers()), cast("Reloader", reloader), standing), reloader


def test_they_are_rules_of_their_route_and_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def live() -> None:
        first, reloader = remedies(tmp_path / "state")
        await first.add("two", KEY, "checkout", RATE, 600.0, "INC-9")
        await first.add("one", KEY, "", RATE, 1e9, "INC-9")
        assert reloader.in_force == ("remedy-2", "remedy-1")
        assert first.standing[1].until <= time.time() + 86_400
        first.close()
        again, reloader = remedies(tmp_path / "state")
        assert again.standing == first.standing
        at_start = reloader.join(POLICIES)
        (rule,) = at_start[1].rules
        assert (rule.name, rule.app, rule.mode is not None and rule.mode.mode) == ("remedy-1", "checkout", Mode.ENFORCE)
        assert rule.settings == LimitsSettings(Per.APP, RATE, key=OneKey(KEY))
        assert at_start[0].rules[0].settings == LimitsSettings(Per.ALL, RATE, key=OneKey(KEY))
        assert await again.undo(1)
        assert not await again.undo(1)
        assert (await again.add("one", KEY, "", RATE, 60.0, "x")).number == 3
        again.close()

    asyncio.run(live())
    said = capsys.readouterr().err
    assert "remedy-1: product:{bytes}:stock capped at 5 commands in 1 s for app checkout until " in said
    assert "remedy-1 is undone (INC-9)" in said
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0, "it names keys"


def test_a_local_cache_is_kept_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def live() -> None:
        first, _ = remedies(tmp_path / "state")
        await first.add("one", KEY, "", None, 600.0, "INC-9")
        first.close()
        again, reloader = remedies(tmp_path / "state")
        assert again.standing == first.standing
        (rule,) = reloader.join(POLICIES)[0].rules
        assert rule.settings == key_cache(OneKey(KEY))
        again.close()

    asyncio.run(live())
    assert "remedy-1: reads of product:{bytes}:stock answered from memory for all until " in capsys.readouterr().err


def test_what_workers_do_not_follow_has_not_happened() -> None:
    async def live() -> None:
        its, reloader = remedies()
        await its.add("one", KEY, "", RATE, 600.0, "x")
        before = its.standing
        reloader.problem = "worker 1: no answer in 15 seconds"
        with pytest.raises(RemedyError, match="worker 1: no answer"):
            await its.add("one", b"other", "", RATE, 600.0, "x")
        with pytest.raises(RemedyError, match="worker 1: no answer"):
            await its.undo(1)
        assert its.standing == before
        reloader.problem = None
        for _ in range(MOST_STANDING - 1):
            await its.add("one", KEY, "", RATE, 600.0, "x")
        with pytest.raises(RemedyError, match="too many remedies: the limit is 20"):
            await its.add("one", KEY, "", RATE, 600.0, "x")
        its.close()

    asyncio.run(live())


def test_they_end_by_themselves_also_while_nobody_was_there(tmp_path: Path) -> None:
    async def live() -> None:
        its, reloader = remedies(tmp_path / "state")
        await its.add("one", KEY, "", RATE, 600.0, "x")
        reloader.renewed.clear()
        await its.add("one", b"brief", "", RATE, 0.001, "x")
        while len(reloader.in_force) != 1 or len(its.standing) != 1:
            reloader.renewed.clear()
            await reloader.renewed.wait()
        assert (reloader.in_force, [each.key for each in its.standing]) == (("remedy-1",), [KEY])
        assert not await its.undo(99)  # behind the write of what is left
        its.close()
        kept = json.loads((tmp_path / "state").read_text())
        kept["remedies"]["standing"][0]["until"] = time.time() - 1
        (tmp_path / "state").write_text(json.dumps(kept))
        later, reloader = remedies(tmp_path / "state")
        assert (later.standing, reloader.join(POLICIES)) == ((), POLICIES)

    asyncio.run(live())


@pytest.mark.parametrize("part", [{"next": 2}, [], {"next": 2, "standing": [{"number": 1}]}])
def test_a_file_with_half_a_remedy(tmp_path: Path, part: object) -> None:
    (tmp_path / "state").write_text(json.dumps({"kill_switch": None, "remedies": part}))
    with pytest.raises(StateError, match="not a state file of Keyrail"):
        remedies(tmp_path / "state")
