"""An incident in a few lines, the same in the log, on the page and in a terminal. They change during the incident:

    product:8841:stock HOT 38k/s = 36 % of 104k/s ±0.4 % since 02:47:03 UTC, peak 41k/s at 02:47:10 UTC, before 120/s; …
    reads 99.7 %, hit 100 %, 9.1 KB → 373 MB/s, TTL 22 s left, slot 7211
    91 % app checkout, go-redis 9.7, 3 clients, all new since 02:47:03 UTC
    advice: answer its reads from memory: no client is refused anything
    remedy: keyrail remedy product:8841:stock --local-cache --for 2h --because INC-9
    advice: cap app checkout at 5k/s: a key is hot from 10 % of all uses; its 120/s before pass
    remedy: keyrail remedy product:8841:stock --cap checkout=5000/s --for 30m --because INC-9

When the incident is over, the details are those of its peak, and there is no advice:

    product:8841:stock was HOT from 02:47:03 to 02:51:40 UTC, peak 41k/s = 38 % of 108k/s ±0.4 % at 02:47:10 UTC, …

Where a remedy is in force, a line says so in place of its advice. For clients see ``client_lines``.

A hot key that does not exist is MISSING: clients stampede to refill it, and no cap brings the key back.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import isinf
from typing import assert_never

from proxy.commands.slots import slot_of
from proxy.traffic import advice
from proxy.traffic.advice import Advised, InForce, not_in_force
from proxy.traffic.alerts import INCIDENT_WINDOW, Alerts
from proxy.traffic.client_lines import more_of, who, words_of
from proxy.traffic.figures import clock, in_bytes, percent, short, two_digits
from proxy.traffic.hot_keys import HotKeys
from proxy.traffic.hotspots import Hotspot, IncidentKind
from proxy.traffic.interval_stats import IntervalStats
from proxy.traffic.key_figures import KeyFigures
from proxy.traffic.key_past import KeyHistory, clients_of
from proxy.traffic.labels import UNKNOWN_APP, Client
from proxy.traffic.latency import Histogram
from proxy.traffic.redaction import Redaction
from proxy.traffic.time_series import TimeSeries

_MISSING = 0.9
"""The share of reads without a key from which a key is MISSING."""
_USER, _ROUTES_OWN = 1, "default"
"""Where a client has its user, and the user of clients without one of their own."""
_READ = 0.9
"""The share of reads among the uses of a key from which a local cache helps most."""
_PEAK_OVER = 0.9
"""The line has the peak while the present rate is below this part of it."""
_SHOWN_KEYS = 3


@dataclass(frozen=True, slots=True)
class Scene:
    """The traffic of the last seconds before `now`, and the busiest keys in them.

    `options` are those that ``keyrail remedy`` needs to reach the route.
    """

    time_series: TimeSeries
    now: float
    hot_keys: HotKeys
    redaction: Redaction
    alerts: Alerts
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

    The rate is 0 if the key was not among the busiest, and None if the key has been as busy in all known figures.
    """

    before: float | None = None
    since: float | None = None
    p99: float | None = None
    clients: frozenset[Client] = frozenset()


@dataclass(frozen=True, slots=True)
class Found:
    """An incident in the seconds in which it is found.

    ``name`` is the subject, and how many more there are (``product:8841:stock and 2 more of product:{int}:stock``);
    ``state`` is a word (``HOT``). ``rate`` is in uses per second, or in bytes; ``amount`` is the rate as text
    (``41k/s = 38 % of 108k/s``). ``details`` are whole lines. ``cap`` is the advised limit: the name of
    an app, and uses per second. ``client`` is the one behind it, if it is one.
    """

    subject: str
    name: str
    state: str
    rate: float = 0.0
    amount: str = ""
    latency: str = ""
    details: tuple[str, ...] = ()
    advice: tuple[Advised, ...] = ()
    cap: tuple[str, int] | None = None
    client: Client = ()


def past_of(scene: Scene, key: bytes, rate: float) -> Past:
    """Describe the time before a key became hot."""
    past = KeyHistory(scene.time_series, scene.until, [key]).of(key, rate)
    if past.since is None:
        return Past()
    times = Histogram()
    for interval in past.earlier:
        times.merge(interval.redis)
    return Past(past.before, past.since, times.quantile(0.99), clients_of(past.earlier))


def describe(scene: Scene, found: Hotspot, past: Past, name: str, peak: float) -> Found:
    """Describe a finding; `name` is the incident's, `peak` its largest size so far."""
    match kind := found.kind:
        case IncidentKind.HOT_KEY:
            return _hot_key(scene, found, past, name, peak)
        case IncidentKind.HOT_SLOT:
            return _hot_slot(scene, found, past)
        case IncidentKind.BIG_VALUE:
            return _big_value(scene, found, past)
        case IncidentKind.KEYS_LOOP | IncidentKind.RECONNECTS | IncidentKind.BUSY_CLIENT:
            return _client(scene, found, name)
        case _:
            assert_never(kind)


def _of_the_route(figures: KeyFigures | None) -> bool:
    # Clients that Redis knows as users of their own are answered nothing from memory.
    return figures is None or all(client[_USER] == _ROUTES_OWN for client in figures.clients)


def _hot_key(scene: Scene, hot: Hotspot, past: Past, name: str, peak: float) -> Found:
    window, all_keys, key = scene.window(), scene.hot_keys, hot.key
    used = all_keys.named(key)
    figures = window.keys.found.get(key)
    subject, both = scene.redaction.of(key), scene.redaction.in_words(key)
    more = f" and {hot.keys - 1} more of {hot.about}" if hot.keys > 1 else ""
    missing = figures is not None and _missed(figures) >= _MISSING
    share = f"{percent(used.share)} of {short(all_keys.rate)}/s ±{percent(all_keys.share_of(used.error))}"
    from_memory = f", {percent(used.cached_share)} of them answered from memory" if used.cached else ""
    from_memory += f", {percent(used.replica_share)} by replicas" if used.moved else ""
    reads = f"reads {percent(used.reads / used.certain)}{from_memory}"
    app, details = "all", [f"{reads}, slot {slot_of(key)}"]
    if figures is not None:
        volume, life = _volume(figures, used.rate), _life(figures, scene.until)
        app, clients = _clients(figures, past)
        details = [f"{reads}, hit {percent(1 - _missed(figures))}, {volume}{life}, slot {slot_of(key)}", clients]
    cap = advice.cap_of(scene.alerts.hot_key, all_keys.rate - used.rate, past.before, peak)
    words = [Advised((advice.MISSING_KEY,))] if missing else []
    read = used.reads >= _READ * used.certain
    if not used.cached and read and _of_the_route(figures):
        lines = advice.of_read_key(), advice.cache(scene.redaction, key, name, scene.options)
        words.append(Advised(lines, key, caches=True))
    if read and used.cached_share >= _READ:
        words.append(Advised((advice.SPARED,)))
    else:
        command = advice.remedy(scene.redaction, key, app, cap.rate, name, scene.options)
        words.append(Advised((advice.of_hot_key(app, cap), command), key, app=app))
    return Found(
        subject,
        both + more,
        "MISSING" if missing else "HOT",
        used.rate,
        f"{short(used.rate)}/s = {share}",
        _latency(window, past),
        tuple(details),
        tuple(words),
        (app, cap.rate),
    )


def _hot_slot(scene: Scene, hot: Hotspot, past: Past) -> Found:
    window = scene.window()
    slot, total, seconds = int(hot.about), sum(window.slots.values()), window.seconds
    used = window.slots[slot]
    busiest = [each for each in scene.hot_keys.keys if slot_of(each.key) == slot][:_SHOWN_KEYS]
    named = [f"{scene.redaction.in_words(each.key)} {percent(each.share)}" for each in busiest]
    return Found(
        f"slot {slot}",
        f"slot {slot}",
        "HOT",
        used / seconds,
        f"{short(used / seconds)}/s = {percent(used / total)} of {short(total / seconds)}/s (estimate)",
        _latency(window, past),
        (f"busiest keys: {', '.join(named)}",) if named else (),
        (Advised((advice.HOT_SLOT,)),),
    )


def _big_value(scene: Scene, big: Hotspot, past: Past) -> Found:
    window = scene.window()
    figures = window.patterns.found.get(big.about)
    known: list[str] = []
    if figures is not None and figures.weight:  # A large reply is noticed even if its command is not traced.
        carried = (figures.volume.bytes_in + figures.volume.bytes_out) / window.seconds
        known.append(f"{short(figures.weight / window.seconds)}/s and {in_bytes(carried)}/s of this pattern (estimate)")
    client = figures.largest_by if figures is not None else ()
    if figures is not None and not client and figures.app not in ("", UNKNOWN_APP):
        known.append(f"app {figures.app}")
    behind = (f"by {who(client)}, {more_of(client)}",) if client else ()
    details = ((", ".join(known),) if known else ()) + behind
    stored = f" ({in_bytes(big.stored)} at Redis, compressed)" if big.stored else ""
    amount = f"{scene.redaction.in_words(big.key)}: {in_bytes(big.size)} in one command or reply{stored}"
    words = (Advised((advice.of_large_value(scene.alerts.big_value, compressed=big.stored > 0),)),)
    return Found(big.about, big.about, "BIG", big.size, amount, _latency(window, past), details, words, None, client)


def _client(scene: Scene, found: Hotspot, name: str) -> Found:
    its = found.client
    assert its is not None, "an incident about a client is found by its figures"
    words = words_of(found.kind, its, name, scene.options)
    subject = who(its.client)
    latency = _latency(scene.window(), Past())
    return Found(
        subject,
        subject,
        words.state,
        words.rate,
        words.amount,
        latency,
        words.details,
        (words.advised,),
        None,
        its.client,
    )


def _missed(figures: KeyFigures) -> float:
    """The share of its reads that found no key."""
    reads = min(figures.volume.reads, figures.volume.measured)
    return min(1.0, figures.volume.missed / reads) if reads else 0.0


def _volume(figures: KeyFigures, rate: float) -> str:
    """Bytes of a command or its reply, and per second."""
    each = max(figures.volume.bytes_in, figures.volume.bytes_out) / max(1, figures.weight)
    return f"{in_bytes(each)} → {in_bytes(each * rate)}/s"


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
    words = [f"{percent(used / total)} app {app}", *libraries[:2], f"{len(its)} client{'s' if len(its) > 1 else ''}"]
    if past.since is not None and new:
        words.append(f"{'all' if new == len(its) else new} new since {clock(past.since)}")
    return ("all" if app == UNKNOWN_APP else app), ", ".join(words)


def _latency(window: IntervalStats, past: Past) -> str:
    now = window.redis.quantile(0.99)
    if now is None:
        return ""
    before = "" if past.p99 is None else f"{two_digits(past.p99 * 1000)} → "
    return f"; Redis p99 {before}{two_digits(now * 1000)} ms"


@dataclass(frozen=True, slots=True)
class Course:
    """An incident over time: its begin, when it was found last and whether that is now, its peak and the peak's time.

    `before` is the rate of a hot key before the incident; None if it is unknown.
    """

    kind: IncidentKind
    began: float
    last: float
    found_now: bool
    over: bool
    peak: float
    peaked: float
    before: float | None


def lines_of(
    course: Course, latest: Found, at_peak: Found, in_force: Sequence[InForce] = (), key: bytes = b""
) -> tuple[str, ...]:
    """All lines of an incident at present, which is about this `key` now: remedies in force are not advised again."""
    told = latest if course.found_now else at_peak
    lines = [_head(course, latest, at_peak), *told.details]
    lines += [] if course.over else not_in_force(told.advice, in_force, key)
    # Names that clients give themselves may contain anything.
    return tuple("".join(char if char.isprintable() else "?" for char in line) for line in lines)


def _head(course: Course, latest: Found, at_peak: Found) -> str:
    if course.kind is IncidentKind.BIG_VALUE:
        return _head_of_large(course, latest, at_peak)
    before = _before(course)
    if course.found_now:
        fallen = course.peak * _PEAK_OVER > latest.rate
        peak = f", peak {_size(course)} at {clock(course.peaked)}" if fallen else ""
        return f"{latest.name} {latest.state} {latest.amount} since {clock(course.began)}{peak}{before}{latest.latency}"
    amount = at_peak.amount or _size(course)
    peak = f", peak {amount} at {clock(course.peaked)}" if course.peaked else ""
    return f"{at_peak.name} was {at_peak.state} {_period(course)}{peak}{before}{at_peak.latency}"


def _size(course: Course) -> str:
    return percent(course.peak) if course.kind is IncidentKind.BUSY_CLIENT else f"{short(course.peak)}/s"


def _head_of_large(course: Course, latest: Found, at_peak: Found) -> str:
    if course.over:
        amount = f": {at_peak.amount}" if at_peak.amount else ""
        return f"{at_peak.name} was {at_peak.state} {_period(course)}{amount}{at_peak.latency}"
    times = f"since {clock(course.began)}, last at {clock(course.last)}"
    return f"{at_peak.name} {at_peak.state} {at_peak.amount}, {times}{latest.latency}"


def _before(course: Course) -> str:
    if course.before is None or course.kind is not IncidentKind.HOT_KEY:
        return ""
    return f", before {short(course.before)}/s" if course.before else ", before not among the busiest keys"


def _period(course: Course) -> str:
    return f"from {clock(course.began).removesuffix(' UTC')} to {clock(course.last)}"
