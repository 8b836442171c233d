"""The kill switch: while it is on, only locked rules are enforced. All other rules judge and count, and pass.

It ends by itself, at most a day after it was turned on, so that a forgotten switch does not turn guardrails off for
ever. With a state folder (``--state-dir``) it survives a restart; the file is replaced as a whole.
"""

import asyncio
import contextlib
import time
from dataclasses import asdict, dataclass
from typing import Any

from proxy.server.notices import Level, notice
from proxy.server.state_file import StateFile
from proxy.server.workers import Workers
from proxy.traffic.labels import moment

MOST_SECONDS = 24 * 3600.0
_PART = "kill_switch"


@dataclass(frozen=True, slots=True)
class KillSwitchPeriod:
    """One period in which the switch is on; times in seconds since the epoch."""

    since: float
    until: float
    because: str


class KillSwitch:
    """The switch of a process group; it acts on ``workers``."""

    def __init__(self, workers: Workers, state: StateFile, pause: KillSwitchPeriod | None) -> None:
        """Continue the last process's period: ``pause`` is the result of ``standing_pause``."""
        self._workers = workers
        self._state = state
        self._lock = asyncio.Lock()
        self._pause: KillSwitchPeriod | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None
        if pause is not None:
            self._set(pause)
            notice(f"{self.sentence()}: only locked rules are enforced", Level.WARNING)

    @property
    def on(self) -> bool:
        """Whether only locked rules are enforced."""
        return self._pause is not None

    def sentence(self) -> str:
        """Return the state as a sentence."""
        pause = self._pause
        if pause is None:
            return "the kill switch is off"
        because = f" ({pause.because})" if pause.because else ""
        return f"the kill switch is on until {moment(pause.until)}{because}"

    def status(self) -> dict[str, Any]:
        """Return the state as a JSON object."""
        pause = self._pause
        if pause is None:
            return {"on": False, "survives_restart": self._state.kept}
        return {
            "on": True,
            "since": moment(pause.since),
            "until": moment(pause.until),
            "because": pause.because,
            "survives_restart": self._state.kept,
        }

    async def turn_on(self, seconds: float, because: str) -> None:
        """Enforce only locked rules for ``seconds``; when this returns, every worker does.

        Raises OSError if the state file could not be written; the switch is on nevertheless.
        """
        async with self._lock:
            now = time.time()
            since = now if self._pause is None else self._pause.since
            pause = KillSwitchPeriod(since, now + min(seconds, MOST_SECONDS), because)
            self._set(pause)
            await self._workers.pause(True)
            notice(f"{self.sentence()}: only locked rules are enforced", Level.WARNING)
            await self._write(pause)

    async def turn_off(self) -> None:
        """Enforce the whole policy again; when this returns, every worker does. Raises OSError."""
        async with self._lock:
            await self._turn_off()

    async def _turn_off(self) -> None:
        await self._workers.pause(False)
        if self.on:
            notice("the kill switch is off: the policy is enforced again")
        self._set(None)
        await self._write(None)

    def close(self) -> None:
        """Cancel the timer."""
        if self._expiry is not None:
            self._expiry.cancel()
        if self._ending is not None:
            self._ending.cancel()

    def _set(self, pause: KillSwitchPeriod | None) -> None:
        self._pause = pause
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        if pause is not None:
            left = max(0.0, pause.until - time.time())
            self._expiry = asyncio.get_running_loop().call_later(left, self._expire)

    def _expire(self) -> None:
        self._ending = asyncio.get_running_loop().create_task(self._end())

    async def _end(self) -> None:
        async with self._lock:
            if self._pause is None:
                return
            if self._pause.until > time.time():
                # It has been turned on again meanwhile, or the clock was set back.
                self._set(self._pause)
                return
            with contextlib.suppress(OSError):
                await self._turn_off()

    async def _write(self, pause: KillSwitchPeriod | None) -> None:
        try:
            await self._state.put(_PART, None if pause is None else asdict(pause))
        except OSError as error:
            notice(
                f"the kill switch will not survive a restart: cannot write {self._state}: {error.strerror}", Level.ERROR
            )
            raise


def standing_pause(state: StateFile) -> KillSwitchPeriod | None:
    """The period that the last process has saved, unless it is over. Raises StateError."""
    found = state.part(_PART)
    if found is None:
        return None
    try:
        pause = KillSwitchPeriod(float(found["since"]), float(found["until"]), str(found["because"]))
    except (ValueError, KeyError, TypeError):
        raise state.broken() from None
    return pause if pause.until > time.time() else None
