"""An incident in a few lines, the same in the alert, on the page and in a terminal:

    product:8841:stock HOT 41k/s = 38 % of 108k/s ±0.4 %, was 120/s until 02:47 UTC; Redis p99 0.4 → 14 ms
    reads 99.7 %, hit 100 %, 9.1 KB → 373 MB/s, TTL 22 s left, slot 7211
    91 % app checkout, go-redis 9.7, 3 clients, all new since 02:47 UTC
    remedy: keyrail remedy product:8841:stock --cap checkout=5000/s --for 30m --because INC-9

A hot key that does not exist is MISSING: clients stampede to refill it, and no cap brings the key back.
"""

import shlex
from collections import Counter
from dataclasses import dataclass
from math import isinf
from typing import assert_never

from proxy.commands.slots import slot_of
from proxy.traffic.alerts import INCIDENT_WINDOW
from proxy.traffic.evidence import UNKNOWN_APP, moment
from proxy.traffic.hot_keys import HotKeys
from proxy.traffic.hotspots import Hotspot, IncidentKind
from proxy.traffic.interval_stats import Client, IntervalStats, KeyFigures
from proxy.traffic.latency import Histogram
from proxy.traffic.names import shown
from proxy.traffic.redaction import Redaction
from proxy.traffic.time_series import TimeSeries

_SAME_RATE = 0.5
"""A key has been as busy as now while its rate was at least this part of it."""
_UNTOLD = 2.5
"""Seconds that some workers may not have reported yet."""
_MISSING = 0.9
"""The share of reads without a key from which a key is MISSING."""
_CAPPED = 8
"""A remedy allows this part of the rate, or twice the usual rate."""
_WORDS_OF_REMEDY = ("list", "undo")
_UNITS = ("B", "KB", "MB", "GB", "TB")
_SHOWN_KEYS = 3


@dataclass(frozen=True, slots=True)
class Scene:
    """What is looked at: the last seconds before `now`, and the busiest keys in them.

    `options` are those that ``keyrail remedy`` needs to reach the route.
    """

    time_series: TimeSeries
    now: float
    hot_keys: HotKeys
    redaction: Redaction
    options: str = ""

    @property
    def until(self) -> float:
        """When these seconds end."""
        return self.hot_keys.until

    def window(self) -> IntervalStats:
        """The sum of these seconds."""
        return self.time_series.window(INCIDENT_WINDOW, self.now)


@dataclass(frozen=True, slots=True)
class Past:
    """The time before a key became hot: its rate, Redis's 99th percentile, its clients; and since when it is hot.

    The rate is 0 if the key was not among the busiest.
    """

    before: float | None = None
    since: float | None = None
    p99: float | None = None
    clients: frozenset[Client] = frozenset()


def past_of(scene: Scene, hot: Hotspot) -> Past:
    """Describe the time before a key became hot."""
    key, rate = hot.key, hot.size
    seconds = scene.time_series.seconds()
    oldest = seconds[0].began if seconds else scene.until
    stretches = [*(each for each in scene.time_series.tens() if each.began + 10 <= oldest), *seconds]
    since = scene.until - 1
    before: list[IntervalStats] = []
    for stretch in reversed(stretches):
        busy = _used(stretch, key) >= _SAME_RATE * rate * stretch.seconds
        if before or not (busy or stretch.began > scene.until - _UNTOLD):
            before.append(stretch)
        elif busy:
            since = stretch.began
    if not before:
        return Past()
    before = before[1:] or before  # In the newest of these it may have begun, and those who use it may have come.
    times = Histogram()
    for stretch in before:
        times.merge(stretch.redis)
    used = sum(_used(stretch, key) for stretch in before) / sum(stretch.seconds for stretch in before)
    clients = frozenset(client for stretch in before for client in stretch.clients.found)
    return Past(used, since, times.quantile(0.99), clients)


def _used(stretch: IntervalStats, key: bytes) -> int:
    """The certain uses of the key: 0 if it was not among the busiest."""
    return next((each.certain for each in stretch.counts().key_counts if each.key == key), 0)


def describe(scene: Scene, found: Hotspot, past: Past, name: str) -> tuple[str, tuple[str, ...]]:
    """The subject, and the lines."""
    match kind := found.kind:
        case IncidentKind.HOT_KEY:
            subject, lines = _hot_key(scene, found, past, name)
        case IncidentKind.HOT_SLOT:
            subject, lines = _hot_slot(scene, found, past)
        case IncidentKind.BIG_VALUE:
            subject, lines = _big_value(scene, found, past)
        case _:
            assert_never(kind)
    # Names that clients give themselves may contain anything.
    return subject, tuple("".join(char if char.isprintable() else "?" for char in line) for line in lines)


def _hot_key(scene: Scene, hot: Hotspot, past: Past, name: str) -> tuple[str, list[str]]:
    window, all_keys, key, rate = scene.window(), scene.hot_keys, hot.key, hot.size
    used = all_keys.named(key)
    figures = window.keys.found.get(key)
    subject = scene.redaction.of(key)
    more = f" and {hot.keys - 1} more of {hot.about}" if hot.keys > 1 else ""
    state = "MISSING" if figures is not None and _missed(figures) >= _MISSING else "HOT"
    share = f"{_percent(used.share)} of {_number(all_keys.rate)}/s"
    first = f"{subject}{more} {state} {_number(rate)}/s = {share} ±{_percent(all_keys.share_of(used.error))}"
    if past.before is not None:
        before = f"was {_number(past.before)}/s" if past.before else "not among the busiest keys"
        first += f", {before} until {_clock(past.since)}"
    lines = [first + _latency(window, past)]
    reads = f"reads {_percent(used.reads / used.certain)}"
    if figures is None:
        lines.append(f"{reads}, slot {slot_of(key)}")
        return subject, [*lines, _remedy(scene, key, rate, past, "all", name)]
    life = _life(figures, scene.until)
    lines.append(f"{reads}, hit {_percent(1 - _missed(figures))}, {_volume(figures, rate)}{life}, slot {slot_of(key)}")
    app, clients = _clients(figures, past)
    return subject, [*lines, clients, _remedy(scene, key, rate, past, app, name)]


def _hot_slot(scene: Scene, hot: Hotspot, past: Past) -> tuple[str, list[str]]:
    window = scene.window()
    slot, total, seconds = int(hot.about), sum(window.slots.values()), window.seconds
    used = window.slots[slot]
    busiest = [each for each in scene.hot_keys.keys if slot_of(each.key) == slot][:_SHOWN_KEYS]
    named = [f"{scene.redaction.of(each.key)} {_percent(each.share)}" for each in busiest]
    first = f"slot {slot} HOT {_number(used / seconds)}/s = {_percent(used / total)}"
    lines = [f"{first} of {_number(total / seconds)}/s (estimate){_latency(window, past)}"]
    return f"slot {slot}", [*lines, f"busiest keys: {', '.join(named)}"] if named else lines


def _big_value(scene: Scene, big: Hotspot, past: Past) -> tuple[str, list[str]]:
    window = scene.window()
    large = f"{scene.redaction.of(big.key)}: {_size(big.size)} in one command or reply"
    lines = [f"{big.about} BIG {large}{_latency(window, past)}"]
    figures = window.patterns.found.get(big.about)
    if figures is not None:
        carried = (figures.volume.bytes_in + figures.volume.bytes_out) / window.seconds
        app = f", app {figures.app}" if figures.app not in ("", UNKNOWN_APP) else ""
        lines.append(
            f"{_number(figures.weight / window.seconds)}/s and {_size(carried)}/s of this pattern (estimate){app}"
        )
    return big.about, lines


def _missed(figures: KeyFigures) -> float:
    """The share of its reads that found no key."""
    reads = min(figures.volume.reads, figures.volume.measured)
    return min(1.0, figures.volume.missed / reads) if reads else 0.0


def _volume(figures: KeyFigures, rate: float) -> str:
    """Bytes of a command or its reply, and per second."""
    each = max(figures.volume.bytes_in, figures.volume.bytes_out) / max(1, figures.weight)
    return f"{_size(each)} → {_size(each * rate)}/s"


def _life(figures: KeyFigures, now: float) -> str:
    """The key's TTL, if it is known."""
    if figures.until == 0.0:
        return ""
    left = figures.until - now
    if isinf(left):
        return ", no TTL"
    for unit, seconds in (("d", 86_400), ("h", 3600), ("min", 60)):
        if left >= 2 * seconds:
            return f", TTL {left / seconds:.0f} {unit} left"
    return f", TTL {max(0.0, left):.0f} s left"


def _clients(figures: KeyFigures, past: Past) -> tuple[str, str]:
    """The app that uses the key most, and a line about its clients."""
    total = sum(figures.clients.values()) + figures.other_clients
    apps: Counter[str] = Counter()
    for client, weight in figures.clients.items():
        apps[client[0]] += weight
    app, used = apps.most_common(1)[0]
    its = [client for client in figures.clients if client[0] == app]
    libraries = sorted({client[3] for client in its if client[3]})
    new = sum(client not in past.clients for client in its)
    words = [f"{_percent(used / total)} app {app}", *libraries[:2], f"{len(its)} client{'s' if len(its) > 1 else ''}"]
    if past.since is not None and new:
        words.append(f"{'all' if new == len(its) else new} new since {_clock(past.since)}")
    return ("all" if app == UNKNOWN_APP else app), ", ".join(words)


def _remedy(scene: Scene, key: bytes, rate: float, past: Past, app: str, name: str) -> str:
    text = shown(key)
    # A key that is not shown as it is cannot be typed, but the incident knows it.
    typed = text == scene.redaction.of(key) and not text.startswith("-") and text not in _WORDS_OF_REMEDY
    which = shlex.quote(text) if typed else f"--incident {name}"
    cap = max(rate / _CAPPED, 2 * (past.before or 0.0))
    return f"remedy: keyrail remedy {which} --cap {app}={_round(cap)}/s --for 30m --because {name}{scene.options}"


def _latency(window: IntervalStats, past: Past) -> str:
    now = window.redis.quantile(0.99)
    if now is None:
        return ""
    before = "" if past.p99 is None else f"{_two_digits(past.p99 * 1000)} → "
    return f"; Redis p99 {before}{_two_digits(now * 1000)} ms"


def _clock(seconds: float | None) -> str:
    return f"{(moment(seconds or 0.0) or '')[11:16]} UTC"


def _number(number: float) -> str:
    """41k, 1.2M, 120."""
    for unit in ("", "k", "M"):
        if number < 999.5:
            return f"{_two_digits(number)}{unit}"
        number /= 1000
    return f"{number:.0f}G"


def _size(size: float) -> str:
    for unit in _UNITS:
        if size < 1023.5 or unit == _UNITS[-1]:
            break
        size /= 1024
    return f"{_two_digits(size)} {unit}"


def _two_digits(number: float) -> str:
    """At least two digits, none of them an exponent's."""
    return f"{number:.2g}" if number < 9.95 else f"{number:.0f}"


def _percent(part: float) -> str:
    return f"{100 * part:.3g} %"


def _round(number: float) -> int:
    """One, two or five of a power of ten, the nearest below."""
    power = 10 ** (len(str(max(1, int(number)))) - 1)
    return int(max(each for each in (1, 2, 5) if each * power <= max(1, number)) * power)
