"""How fast a scan goes: it takes a share of a server's time, and less where the server gets slower.

Two things are measured: how long a request took above the idle round trip, which is about the time that the server
worked for it, and the round trip of a PING that is sent now and then. A PING that is late, measured by those at the
start, doubles the waits; one in time halves them again. If those of the scan are quicker than those at the start, they
take their place: the server, or this machine, was busy then. While the server loads, saves or fails over, nothing is
asked.
"""

import math
from collections import deque
from collections.abc import Collection, Mapping, Sequence

PROBES = 50
"""PINGs at the start."""
PROBE_SECONDS = 0.1
"""Seconds between two PINGs."""
LOOK_SECONDS = 1.0
"""Seconds between two looks at what the server does."""
_MOST_BACK_OFF = 64
_LEAST_WAIT = 0.001
"""Seconds, times how far it backs off: also a page that seems to have cost nothing is waited for then."""
_MOST_WAIT = 5.0
_NOISE = 0.0005
"""Seconds by which a round trip may differ without a reason."""


class Pace:
    """The pace for one server: ``share`` of its time, by the round trips of the PINGs at the start."""

    def __init__(self, share: float, round_trips: Sequence[float]) -> None:
        self.back_off = 1
        self.late = 0
        self._idle = min(round_trips, default=0.0)
        self._usual = _p90(round_trips)
        self._newest: deque[float] = deque(maxlen=PROBES)
        self._rest = 1 / share - 1

    @property
    def is_off(self) -> bool:
        """Whether all of the server's time may be taken."""
        return self._rest <= 0

    def work_in(self, seconds: float) -> float:
        """Seconds that the server has worked for a request that took this long."""
        return max(seconds - self._idle, 0.0)

    def wait_after(self, seconds: float) -> float:
        """Seconds to wait after the replies to a request that took this long."""
        if self.is_off:
            return 0.0
        wait = self.work_in(seconds) * self._rest * self.back_off
        return min(max(wait, _LEAST_WAIT * (self.back_off - 1)), _MOST_WAIT)

    @property
    def longest_wait(self) -> float:
        """Seconds to wait after a request that was not answered in time."""
        return 0.0 if self.is_off else _MOST_WAIT

    def probed(self, seconds: float) -> None:
        """A PING took this long."""
        self._newest.append(seconds)
        self._idle = min(self._idle, seconds)
        if len(self._newest) == PROBES:
            self._usual = min(self._usual, _p90(self._newest))
        if seconds > 2 * self._usual + _NOISE:
            self.late += 1
            self.back_off = min(2 * self.back_off, _MOST_BACK_OFF)
        else:
            self.back_off = max(self.back_off // 2, 1)


def _p90(round_trips: Collection[float]) -> float:
    # Not the longest one: of 50, some always wait for something else.
    return sorted(round_trips)[math.ceil(0.9 * len(round_trips)) - 1] if round_trips else 0.0


LINK_DOWN = "its link to the primary is down"
_BUSY = {
    "loading": "it loads its data",
    "async_loading": "it loads its data",
    "rdb_bgsave_in_progress": "it saves (RDB)",
    "aof_rewrite_in_progress": "it rewrites its AOF",
    "master_sync_in_progress": "it gets its data from the primary",
}


def without_primary(info: Mapping[str, str]) -> str:
    """Why a replica may have other keys than its primary, by its INFO; empty if it follows it."""
    return LINK_DOWN if info.get("master_link_status") == "down" else ""


def reason_to_stop(info: Mapping[str, str]) -> str:
    """What the server does that a scan must not disturb, by its INFO; empty if it does nothing of that kind."""
    for field, reason in _BUSY.items():
        if info.get(field, "0") != "0":
            return reason
    failover = info.get("master_failover_state", "no-failover")
    return "" if failover == "no-failover" else "it fails over"
