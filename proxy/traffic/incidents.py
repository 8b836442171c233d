"""Incidents: reported once, with when they begin and when they are over.

Once a second the last five are looked at (``traffic.hotspots``). An incident begins when its thresholds are reached. It
is reported when it has not grown for two seconds: by then the five seconds contain nothing else, and its figures are
stable. It continues while the same finding reaches 70 % of its thresholds, and is over when it has not been found for
a while; its end is when it was found last. So a key that is hot every few seconds is one incident, and one that stays
at a threshold is one, too. While an incident grows, its lines are rewritten, so in the end they describe its peak.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from proxy.traffic.alerts import Alerts
from proxy.traffic.hot_keys import HotKeys
from proxy.traffic.hotspots import Hotspot, IncidentKind, find, lately
from proxy.traffic.incident_lines import Past, Scene, describe, past_of
from proxy.traffic.redaction import Redaction
from proxy.traffic.time_series import TimeSeries

_GROWN, _GROWS = 1.1, 2.0
"""What has grown by this is described anew; what has not for so many seconds is told."""
_MOST_OPEN = 100
"""Open incidents of one route; further ones begin when others are over."""


_QUIET = {IncidentKind.HOT_KEY: 60.0, IncidentKind.HOT_SLOT: 60.0, IncidentKind.BIG_VALUE: 600.0}
"""Seconds without it, after which it is over. Of commands with large values only some are traced."""


@dataclass(frozen=True, slots=True)
class IncidentFigures:
    """A hot key's figures when its lines were written, of a snapshot (``HotKeys``) that was taken then."""

    taken: float
    window: int
    count: int
    error: int
    rate: float
    share: float

    @classmethod
    def of(cls, found: HotKeys, key: bytes) -> "IncidentFigures":
        """The figures of a key in a snapshot."""
        its = found.named(key)
        return cls(found.taken, found.window, its.count, its.error, its.rate, its.share)


@dataclass(slots=True)
class Incident:
    """One incident; `number` tells it from all others. Times are in seconds since the epoch.

    `subject` and `lines` are redacted; the `key` itself is empty if it is no longer known.
    """

    number: int
    route: str
    kind: IncidentKind
    about: str
    subject: str
    lines: tuple[str, ...]
    began: float
    ended: float | None = None
    found: float = 0.0
    """When it was found last."""
    grown: float = 0.0
    """When its lines were written last."""
    figures: IncidentFigures | None = None
    """Of hot keys."""
    key: bytes = b""
    peak: float = float("inf")
    past: Past = field(default_factory=Past)
    told: bool = True

    @property
    def name(self) -> str:
        """Its name, such as INC-9."""
        return f"INC-{self.number}"


class Lookout:
    """Watches over one route. `number` gives out numbers; `known` are incidents that were open before a restart.

    `options` are those that ``keyrail remedy`` needs to reach the route.
    """

    def __init__(self, route: str, options: str, number: Callable[[], int], known: Iterable[Incident] = ()) -> None:
        self._route = route
        self._options = options
        self._number = number
        self._open = {(each.kind, each.about): each for each in known}

    @property
    def open(self) -> tuple[Incident, ...]:
        """The incidents that are not over."""
        return tuple(self._open.values())

    def look(
        self,
        time_series: TimeSeries,
        now: float,
        alerts: Alerts,
        redaction: Redaction,
        pattern_of: Callable[[bytes], str],
    ) -> list[Incident]:
        """Return what has just begun, and what is over."""
        seen = lately(time_series, now)
        scene = Scene(time_series, now, seen.hot_keys, redaction, self._options)
        for hotspot in find(seen, alerts, pattern_of):
            self._take(hotspot, now, scene)
        changed = []
        for incident in self.open:
            if not incident.told and now - incident.grown >= _GROWS:
                incident.told = True
                changed.append(incident)
            elif now - incident.found >= _QUIET[incident.kind]:
                incident.ended = incident.found
                del self._open[incident.kind, incident.about]
                changed.append(incident)
        return changed

    def _take(self, hotspot: Hotspot, now: float, scene: Scene) -> None:
        known = self._open.get((hotspot.kind, hotspot.about))
        if known is not None:
            known.found = now
            if hotspot.size > _GROWN * known.peak:
                known.grown = now
                self._describe(known, hotspot, scene)
        elif hotspot.reached and len(self._open) < _MOST_OPEN:
            self._begin(hotspot, now, scene)

    def _begin(self, hotspot: Hotspot, now: float, scene: Scene) -> None:
        past = past_of(scene, hotspot) if hotspot.kind is IncidentKind.HOT_KEY else Past()
        began = now if past.since is None else past.since
        about = hotspot.kind, hotspot.about
        incident = Incident(self._number(), self._route, *about, "", (), began, found=now, grown=now, past=past)
        incident.told = False
        self._open[about] = incident
        self._describe(incident, hotspot, scene)

    def _describe(self, incident: Incident, hotspot: Hotspot, scene: Scene) -> None:
        incident.key = hotspot.key
        incident.peak = hotspot.size
        incident.figures = (
            IncidentFigures.of(scene.hot_keys, hotspot.key) if hotspot.kind is IncidentKind.HOT_KEY else None
        )
        incident.subject, incident.lines = describe(scene, hotspot, incident.past, incident.name)
