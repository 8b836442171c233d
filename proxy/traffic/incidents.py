"""Incidents: reported when they begin, when they change much, and when they are over.

Every second, the last five seconds are searched (``traffic.hotspots``). An incident begins when its thresholds are
reached. It is reported when it has not grown for two seconds: by then its figures are stable. It continues while the
same finding reaches 70 % of its thresholds. It is over when it has not been found for a while; its end is the time when
it was found last. So a key that is hot every few seconds is one incident, as is a key that stays at a threshold. It is
reported again when its peak is twice the last reported one, and when another key of its pattern becomes the busiest.
Each search rewrites its lines: they have the present rate, the peak, and then the end.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from proxy.commands.slots import slot_of
from proxy.traffic.advice import ADVICE, IN_FORCE, REMEDY, Advised, InForce
from proxy.traffic.alerts import Alerts
from proxy.traffic.client_lines import BUSY, KEYS_LOOP, RECONNECTING
from proxy.traffic.hot_keys import HotKeys
from proxy.traffic.hotspots import Hotspot, IncidentKind, find, lately
from proxy.traffic.incident_lines import Course, Found, Past, Scene, describe, lines_of, past_of
from proxy.traffic.labels import Client
from proxy.traffic.redaction import Redaction
from proxy.traffic.time_series import TimeSeries

_GROWN, _GROWS = 1.1, 2.0
"""An incident is reported when it has not grown by this factor for this number of seconds."""
_GROWN_MUCH = 2.0
"""It is reported again when its peak is this multiple of the last reported one."""
_MOVES = 60.0
"""The least seconds between two reports that another key is the busiest."""
_SAME_KEY = 0.8
"""An incident about several hot keys keeps naming the same key while it has this part of the busiest key's rate."""
_STATES = {
    IncidentKind.HOT_KEY: "HOT",
    IncidentKind.HOT_SLOT: "HOT",
    IncidentKind.BIG_VALUE: "BIG",
    IncidentKind.KEYS_LOOP: KEYS_LOOP,
    IncidentKind.RECONNECTS: RECONNECTING,
    IncidentKind.BUSY_CLIENT: BUSY,
}
"""The state of an incident from before a restart: only its lines are known."""
_MOST_OPEN = 100
"""Open incidents of one route; further ones begin when others are over."""


_QUIET = {IncidentKind.BIG_VALUE: 600.0}
_USUAL_QUIET = 60.0
"""Seconds without a finding after which an incident is over. Only some commands with large values are traced."""


class IncidentEvent(Enum):
    """Why an incident is reported. The remedies are known to the server alone."""

    BEGUN = "begun"
    GROWN = "grown"
    MOVED = "moved"
    REMEDIED = "remedied"
    REMEDY_OVER = "remedy-over"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class IncidentFigures:
    """A hot key's figures when it was found last, of a snapshot (``HotKeys``) that was taken then."""

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

    `subject`, `tenant` and `lines` are redacted; the `key` itself is empty if it is no longer known.
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
    """When it last grew."""
    figures: IncidentFigures | None = None
    """For hot keys: the figures when it was found last."""
    key: bytes = b""
    tenant: dict[str, Any] | None = None
    """The tenant of the key, and its own name for it, as JSON has them."""
    slot: int | None = None
    """The key's, of hot keys."""
    client: Client = ()
    """The client that it is about, or of the largest value; empty if there is none, or it is not known."""
    peak: float = 0.0
    """Uses, KEYS or connections per second, seconds of a second, or bytes."""
    peaked: float = 0.0
    """When; 0 if that is not known."""
    past: Past = field(default_factory=Past)
    event: IncidentEvent | None = None
    """Why it was reported last; None if it has not been yet."""
    reported: float = 0.0
    """When it was."""
    reported_peak: float = 0.0
    """The peak as of then; 0 if it is not known."""
    reported_key: bytes = b""
    """The key as of then; empty if it is not known."""
    moved: float = 0.0
    """When another key was reported last."""
    remedies: frozenset[int] = frozenset()
    """The numbers of the remedies that are in force against it."""
    latest: Found | None = None
    at_peak: Found | None = None

    @property
    def name(self) -> str:
        """Its name, such as INC-9."""
        return f"INC-{self.number}"

    def report(self, event: IncidentEvent, now: float) -> None:
        """Note that it is reported, and as what."""
        self.event, self.reported = event, now
        self.reported_peak, self.reported_key = self.peak, self.key


class Lookout:
    """Watches over one route. `number` gives out numbers; `known` are incidents that were open before a restart.

    `options` are those that ``keyrail remedy`` needs to reach the route.
    """

    def __init__(
        self,
        route: str,
        options: str,
        number: Callable[[], int],
        known: Iterable[Incident] = (),
    ) -> None:
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
        in_force: Sequence[InForce] = (),
    ) -> list[Incident]:
        """Return the incidents to report; the ``event`` of each says why. Remedies that are ``in_force`` are not
        advised again."""
        seen = lately(time_series, now)
        scene = Scene(time_series, now, seen.hot_keys, redaction, alerts, self._options)
        for hotspot in find(seen, alerts, pattern_of):
            self._take(hotspot, now, scene)
        changed = []
        for incident in self.open:
            event = _due(incident, now)
            if event is not None:
                incident.report(event, now)
                changed.append(incident)
            if event is IncidentEvent.OVER:
                incident.ended = incident.found
                del self._open[incident.kind, incident.about]
            elif event is IncidentEvent.MOVED:
                incident.moved = now
            _write(incident, now, in_force)
        return changed

    def _take(self, hotspot: Hotspot, now: float, scene: Scene) -> None:
        about = hotspot.kind, hotspot.about
        if about not in self._open:
            if not hotspot.reached or len(self._open) >= _MOST_OPEN:
                return
            self._open[about] = Incident(self._number(), self._route, *about, "", (), now)
        incident = self._open[about]
        incident.found = now
        if hotspot.kind is IncidentKind.HOT_KEY:
            self._name_key(incident, hotspot, scene)
        else:
            incident.key = hotspot.key
        if hotspot.size > incident.peak:
            if hotspot.size > _GROWN * incident.peak:
                incident.grown = now
            incident.peak, incident.peaked = hotspot.size, now
        incident.latest = describe(
            scene, replace(hotspot, key=incident.key), incident.past, incident.name, incident.peak
        )
        incident.subject = incident.latest.subject
        incident.tenant = scene.redaction.tenant_of(incident.key) if incident.key else None
        incident.client = incident.latest.client or incident.client
        if incident.peaked == now:
            incident.at_peak = incident.latest

    def _name_key(self, incident: Incident, hotspot: Hotspot, scene: Scene) -> None:
        """Choose the key that stands for all: the busiest, or the present one."""
        rates = {each.key: each.rate for each in scene.hot_keys.keys}
        if rates.get(incident.key, 0.0) < _SAME_KEY * hotspot.size:
            if incident.key or incident.past.since is None:
                incident.past = past_of(scene, hotspot.key, hotspot.size)
            if not incident.key and incident.past.since is not None:
                incident.began = min(incident.began, incident.past.since)
            incident.key, incident.slot = hotspot.key, slot_of(hotspot.key)
        incident.figures = IncidentFigures.of(scene.hot_keys, incident.key)


def _due(incident: Incident, now: float) -> IncidentEvent | None:
    """The event of an incident to report now, if any."""
    steady = now - incident.grown >= _GROWS
    if incident.event is None:
        return IncidentEvent.BEGUN if steady else None
    if now - incident.found >= _QUIET.get(incident.kind, _USUAL_QUIET):
        return IncidentEvent.OVER
    # After a restart neither is known until it is found again.
    incident.reported_peak = incident.reported_peak or incident.peak
    incident.reported_key = incident.reported_key or incident.key
    another_key = incident.kind is IncidentKind.HOT_KEY and incident.key != incident.reported_key
    if another_key and now - incident.moved >= _MOVES:
        return IncidentEvent.MOVED
    if steady and incident.peak >= _GROWN_MUCH * incident.reported_peak > 0:
        return IncidentEvent.GROWN
    return None


def _write(incident: Incident, now: float, in_force: Sequence[InForce]) -> None:
    """Rewrite its lines."""
    known = incident.at_peak or _known_from_lines(incident)
    course = Course(
        incident.kind,
        incident.began,
        incident.found,
        found_now=incident.latest is not None and incident.found == now,
        over=incident.ended is not None,
        peak=incident.peak,
        peaked=incident.peaked,
        before=incident.past.before,
    )
    incident.lines = lines_of(course, incident.latest or known, known, in_force, incident.key)


def _known_from_lines(incident: Incident) -> Found:
    """An incident from before a restart, as its lines describe it."""
    details = (line for line in incident.lines[1:] if not line.startswith((ADVICE, REMEDY, IN_FORCE)))
    advice = (line for line in incident.lines[1:] if line.startswith((ADVICE, REMEDY)))
    return Found(
        incident.subject,
        incident.subject,
        _STATES[incident.kind],
        details=tuple(details),
        advice=(Advised(tuple(advice)),),
    )
