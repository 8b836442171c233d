"""Incidents of all routes: searched every second, reported on standard error, and kept for a week.

With a file (``--incidents``) each incident is a line of JSON at each event: when it begins, when its peak has doubled,
when another key is the busiest one, when a remedy against it is put in force or ends, and when it is over. So incidents
survive a restart. Each line has the whole incident:

    {"id": "INC-9", "route": "default", "kind": "hot-key", "subject": "product:8841:stock", "about":
     "product:{int}:stock", "began": "2026-11-21T02:47:03.000Z", "ended": null, "lines": ["…", …],
     "figures": {"at": "2026-11-21T02:47:08.412Z", "window": 5, "count": 205000, "error": 820, "rate": 40836.0,
                 "share": 0.378111},
     "peak": {"at": "2026-11-21T02:47:07.000Z", "size": 41022.4}, "before": 120.0, "slot": 7211,
     "client": null, "cap": {"app": "checkout", "rate": "5000/s"},
     "event": {"what": "begun", "at": "2026-11-21T02:47:05.000Z"}, "remedies": []}

``tenant`` is there for a key of a tenant, as ``/hotkeys`` has it.
``client`` is the client that an incident is about, or that of the largest value, as ``/clients`` has it; ``slot`` is of
hot keys. ``figures`` are the last figures of a hot key, as ``/hotkeys?window=5`` showed them in the snapshot ``at``.
``peak`` is in uses (KEYS, connections) per second, in seconds of a second for a busy client, or in bytes for a large
value. ``before`` is the rate of a hot key before the incident, ``cap`` the advised limit. ``event`` is an
``IncidentEvent``, ``remedies`` the numbers of the remedies that are in force against it. Unknown values are
null, as are values that do not apply to the kind of incident.

The number and age of the incidents in memory are bounded. From time to time the file is rewritten from memory.
"""

import asyncio
import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from proxy.policy_yaml.regular_file import read_regular
from proxy.schema.entries import Schema
from proxy.server.line_writer import LineWriter
from proxy.server.notices import Level, LostLines, notice
from proxy.server.remedies import Remedy
from proxy.server.whole_file import replace_file
from proxy.server.workers import Workers
from proxy.server.writer_thread import ENDING_SECONDS, WriterThread, dropped_lines
from proxy.traffic.hotspots import CLIENT_KINDS, IncidentKind
from proxy.traffic.incident_lines import Past
from proxy.traffic.incidents import Incident, IncidentEvent, IncidentFigures, Lookout
from proxy.traffic.json_views import client_of, named
from proxy.traffic.labels import moment
from proxy.traffic.misuse import KEYS
from proxy.traffic.redaction import Redaction
from proxy.traffic.shapes import pattern_of as pattern_in

KEPT_SECONDS = 7 * 86_400.0
MOST_KEPT = 1000
LARGEST_FILE = 8 << 20
_NAME = "incidents"
"""In bytes. The incidents in memory take less."""


_GOOD_NEWS = (IncidentEvent.REMEDIED, IncidentEvent.OVER)


class IncidentsError(Exception):
    """The file cannot be used; the text names it and the reason."""


class Incidents:
    """All incidents; ``routes`` are the names of the group's routes.

    With ``admin_options``, for example `` --admin URL``, ``keyrail remedy`` reaches this Keyrail. ``standing`` returns
    the remedies in force.
    """

    def __init__(
        self,
        workers: Workers,
        routes: list[str],
        file: Path | None,
        admin_options: str = "",
        standing: Callable[[], Sequence[Remedy]] = tuple,
    ) -> None:
        """Continue the incidents of the file. Raises IncidentsError."""
        self.begun: Counter[tuple[str, str]] = Counter()
        """The number of incidents since the start, by route and kind."""
        self._workers = workers
        self._routes = tuple(routes)
        self._file = file
        self._admin_options = admin_options
        self._standing = standing
        self._thread = WriterThread(_NAME)
        self._lines = LineWriter()
        self._written = 0
        self._complaint = ""
        self._trouble = LostLines()
        self._kept: dict[int, Incident] = {}
        now = time.time()
        if file is not None:
            try:
                self._kept = {each.number: each for each in _read(file, routes)}
                self._forget(now)
                lines = [_line(each) for each in self._kept.values()]
                self._written = sum(map(len, lines))
                self._write_all(file, lines)
            except OSError as error:
                raise IncidentsError(f"cannot keep incidents in {file}: {error.strerror}") from None
        numbers = itertools.count(max(self._kept, default=0) + 1)
        self._lookouts = [self._lookout(name, len(routes) > 1, numbers, now) for name in routes]

    def _lookout(self, route: str, several: bool, numbers: "itertools.count[int]", now: float) -> Lookout:
        known = [each for each in self._kept.values() if each.route == route and each.ended is None]
        for each in known:
            each.found = now  # Whether it continued is unknown: from now on it is searched.
        options = f" --route {route}" if several else ""
        return Lookout(route, options + self._admin_options, numbers.__next__, known)

    async def run(self) -> None:
        """Search every second until cancelled."""
        while True:
            await asyncio.sleep(1.0)
            try:
                self.look(time.time())
            except Exception as error:  # noqa: BLE001 - reported; without it one mistake would end all alerts
                self._complain(f"cannot look for incidents: {type(error).__name__}: {error}")

    def look(self, now: float) -> None:
        """Search once."""
        for index, lookout in enumerate(self._lookouts):
            policy = self._workers.policies[index]

            names = self._workers.redaction(index)

            def pattern_of(key: bytes, schema: Schema = policy.schema, names: Redaction = names) -> str:
                own = key if (tenant := names.own and names.own(key)) is None else tenant[0]
                return pattern_in(schema, own, key.removesuffix(own))

            standing = [each for each in self._standing() if each.route == self._routes[index]]
            found = lookout.look(
                self._workers.time_series[index],
                now,
                policy.alerts,
                names,
                pattern_of,
                [each.in_force() for each in standing],
            )
            for incident in found:
                self._tell(incident, now, _said(incident))
            for incident in lookout.open:
                self._look_for_remedies(incident, now)

    def _look_for_remedies(self, incident: Incident, now: float) -> None:
        """Report remedies against an incident that have been put in force or have ended."""
        if incident.event is None:
            return
        standing = {each.number: each for each in self._standing() if each.route == incident.route}
        against = {number for number, each in standing.items() if _is_against(each, incident)}
        for number in sorted(incident.remedies - standing.keys()):
            incident.remedies -= {number}
            incident.report(IncidentEvent.REMEDY_OVER, now)
            self._tell(incident, now, f" is no longer under remedy-{number}")
        for number in sorted(against - incident.remedies):
            incident.remedies |= {number}
            incident.report(IncidentEvent.REMEDIED, now)
            self._tell(incident, now, f" is under {standing[number].name}")

    def _tell(self, incident: Incident, now: float, said: str) -> None:
        if incident.event is IncidentEvent.BEGUN:
            self.begun[incident.route, incident.kind] += 1
        level = Level.INFO if incident.event in _GOOD_NEWS else Level.WARNING
        notice(f"incident {incident.name} on route {incident.route}{said}: {incident.lines[0]}", level)
        self._kept[incident.number] = incident
        self._forget(now)
        self._write(incident)

    def all(self) -> list[Incident]:
        """The incidents in memory, the newest first."""
        return sorted(self._kept.values(), key=lambda each: -each.number)

    def named(self, name: str) -> Incident | None:
        """The incident with this name, such as INC-9."""
        return next((each for each in self._kept.values() if each.name == name), None)

    def open(self, route: int) -> Counter[str]:
        """The number of open incidents of each kind."""
        return Counter(each.kind.value for each in self._lookouts[route].open)

    def _forget(self, now: float) -> None:
        newest = sorted(self._kept)[-MOST_KEPT:]
        self._kept = {
            number: each
            for number in newest
            if (each := self._kept[number]).ended is None or each.ended > now - KEPT_SECONDS
        }

    def _write(self, incident: Incident) -> None:
        if self._file is None:
            return
        line = _line(incident)
        self._written += len(line)
        if self._written > LARGEST_FILE:
            lines = [_line(each) for each in self._kept.values()]
            self._written = sum(map(len, lines))
            self._thread.write(partial(self._try_to, self._write_all, self._file, lines))
        else:
            self._thread.write(partial(self._try_to, self._append, self._file, line))

    def _try_to(self, write: Callable[..., None], file: Path, *what: Any) -> None:
        """In the thread."""
        try:
            write(file, *what)
        except OSError as error:
            dropped_lines[_NAME] += 1
            self._trouble.lost(f"cannot keep incidents in {file}: {error.strerror}", 1)
        else:
            self._trouble.written(str(file))

    def _append(self, file: Path, line: bytes) -> None:
        with file.open("ab", buffering=0) as out:
            self._lines.write(out.fileno(), line)

    def close(self) -> None:
        """Write what waits, if that is possible soon."""
        self._thread.drain(ENDING_SECONDS)

    def _complain(self, text: str) -> None:
        """Report it, but not the same text twice in a row."""
        if text != self._complaint:
            notice(text, Level.ERROR)
        self._complaint = text

    def _write_all(self, file: Path, lines: Sequence[bytes]) -> None:
        """Rewrite the whole file."""
        replace_file(file, lines, 0o640)
        self._lines = LineWriter()


def _said(incident: Incident) -> str:
    match incident.event:
        case IncidentEvent.OVER:
            return f" is over after {max(0.0, (incident.ended or 0.0) - incident.began):.0f} s"
        case IncidentEvent.GROWN:
            return " has grown"
        case IncidentEvent.MOVED:
            return " has moved to another key"
        case _:
            return ""


def _is_against(remedy: Remedy, incident: Incident) -> bool:
    """A remedy limits the incident's key, or was put in force because of the incident."""
    about_key = bool(remedy.key) and remedy.key == incident.key
    command = KEYS if incident.kind is IncidentKind.KEYS_LOOP else ""
    of_client = incident.kind in CLIENT_KINDS and bool(incident.client)
    about_client = of_client and remedy.in_force().is_about(incident.client, command)
    return about_key or about_client or incident.name in remedy.because.split()


def present(incident: Incident) -> dict[str, Any]:
    """One incident as a JSON object."""
    return {
        "id": incident.name,
        "route": incident.route,
        "kind": incident.kind.value,
        "subject": incident.subject,
        **({} if incident.tenant is None else {"tenant": incident.tenant}),
        "about": incident.about,
        "began": moment(incident.began),
        "ended": None if incident.ended is None else moment(incident.ended),
        "lines": list(incident.lines),
        "figures": None if incident.figures is None else _told(incident.figures),
        "peak": {"at": moment(incident.peaked), "size": round(incident.peak, 3)} if incident.peaked else None,
        "before": incident.past.before,
        "slot": incident.slot,
        "client": named(incident.client) if incident.client else None,
        "cap": _cap(incident),
        "event": None if incident.event is None else {"what": incident.event.value, "at": moment(incident.reported)},
        "remedies": sorted(incident.remedies),
    }


def _cap(incident: Incident) -> dict[str, Any] | None:
    if incident.latest is None or incident.latest.cap is None or incident.ended is not None or incident.remedies:
        return None
    app, rate = incident.latest.cap
    return {"app": app, "rate": f"{rate}/s"}


def _told(figures: IncidentFigures) -> dict[str, Any]:
    return {
        "at": moment(figures.taken),
        "window": figures.window,
        "count": figures.count,
        "error": figures.error,
        "rate": figures.rate,
        "share": figures.share,
    }


def _figures(told: dict[str, Any]) -> IncidentFigures:
    return IncidentFigures(
        taken=datetime.fromisoformat(told["at"]).timestamp(),
        window=int(told["window"]),
        count=int(told["count"]),
        error=int(told["error"]),
        rate=float(told["rate"]),
        share=float(told["share"]),
    )


def _line(incident: Incident) -> bytes:
    return json.dumps(present(incident)).encode() + b"\n"


def _read(file: Path, routes: list[str]) -> list[Incident]:
    """The incidents of a file, each from its last line. Broken lines, such as half a line, are left out.

    Incidents of routes that no longer exist are over.
    """
    try:
        lines = read_regular(file, 4 * LARGEST_FILE).splitlines()
    except FileNotFoundError:
        return []
    found: dict[int, Incident] = {}
    for line in lines:
        try:
            incident = _incident(json.loads(line))
        except (ValueError, KeyError, TypeError):
            continue
        if incident.ended is None and incident.route not in routes:
            incident.ended = incident.began
        found[incident.number] = incident
    return [found[number] for number in sorted(found)]


def _incident(told: dict[str, Any]) -> Incident:
    ended, figures, peak, before = told["ended"], told.get("figures"), told.get("peak"), told.get("before")
    event = told.get("event") or {"what": "begun" if ended is None else "over", "at": ended or told["began"]}
    began = datetime.fromisoformat(told["began"]).timestamp()
    return Incident(
        number=int(str(told["id"]).removeprefix("INC-")),
        route=str(told["route"]),
        kind=IncidentKind(told["kind"]),
        about=str(told["about"]),
        subject=str(told["subject"]),
        lines=tuple(map(str, told["lines"])),
        began=began,
        ended=None if ended is None else datetime.fromisoformat(ended).timestamp(),
        figures=None if figures is None else _figures(figures),
        tenant=_tenant(told.get("tenant")),
        slot=None if told.get("slot") is None else int(told["slot"]),
        client=client_of(told.get("client")),
        peak=float(peak["size"]) if peak else 0.0,
        peaked=datetime.fromisoformat(peak["at"]).timestamp() if peak else 0.0,
        past=Past() if before is None else Past(float(before), began),
        event=IncidentEvent(event["what"]),
        reported=datetime.fromisoformat(event["at"]).timestamp(),
        remedies=frozenset(map(int, told.get("remedies", ()))),
    )


def _tenant(told: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if told is None else {"app": told["app"], "key": str(told["key"])}
