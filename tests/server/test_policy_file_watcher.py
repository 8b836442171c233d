"""Policy files are watched as long as Keyrail runs, also after errors."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from proxy.net.config.background_thread import BackgroundThread
from proxy.server.policy_file_watcher import PolicyFileWatcher
from proxy.server.reload import Reloader
from tests.resp import PATIENCE_SECONDS
from tests.server.running import STAMP


class FakeReloader:
    """Fails as often as a test says, and then reloads."""

    def __init__(self, file: Path, errors: list[Exception]) -> None:
        self.files = frozenset({str(file)})
        self.errors = errors
        self.failures = 0
        self.reader = BackgroundThread("a test")
        self.reloaded = asyncio.Event()

    async def reload(self, *, asked: bool) -> None:
        assert not asked
        if self.errors:
            raise self.errors.pop(0)
        self.reloaded.set()

    def failed(self) -> None:
        self.failures += 1


def test_an_exception_is_counted_and_told_and_the_files_are_still_watched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        file = tmp_path / "policy.yaml"
        file.write_text("rules: {}")
        reloader = FakeReloader(file, [ValueError("odd"), ValueError("odd"), KeyError("x")])
        watching = asyncio.get_running_loop().create_task(PolicyFileWatcher(cast("Reloader", reloader), 0.001).run())
        for _ in range(2):
            await asyncio.wait_for(reloader.reloaded.wait(), PATIENCE_SECONDS)
            reloader.reloaded.clear()
            file.write_text("rules: {a: {}}")
        assert reloader.failures == 3
        watching.cancel()
        await asyncio.wait([watching])

    asyncio.run(main())
    assert STAMP.sub("", capsys.readouterr().err).splitlines() == [
        "keyrail: cannot reload changed policy files, trying again: ValueError: odd",
        "keyrail: cannot reload changed policy files, trying again: KeyError: 'x'",
    ]
