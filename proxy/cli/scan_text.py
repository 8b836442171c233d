"""A scan as text for a terminal: whose keys there are, what is wrong with them, the largest ones, and the servers."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from proxy.cli.text_forms import Plain
from proxy.server.stored.model import TTL_BOUNDS, FindingRow, Kind, NodeFigures, Scan
from proxy.server.stored.scanner import Progress

_MOST_FINDINGS, _MOST_PATTERNS, _MOST_LARGEST, _MOST_SLOTS = 8, 5, 10, 5
_BAR = 20
_FAULT_COLUMNS = ("enforced", "milder", "unsure", "excepted")
_FORM = Plain()
_BYTES = ("bytes", "KiB", "MiB", "GiB", "TiB")
NOBODY = "nobody's"


class _HasBytes(Protocol):
    @property
    def keys(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def unmeasured(self) -> int: ...


def text(scan: Scan, contacts: Mapping[str, str]) -> str:
    """The whole scan. ``contacts`` are those of apps."""
    said = notes(scan)
    return "\n".join(
        [
            *_summary(scan),
            *_owners(scan, contacts),
            *_findings(scan),
            *_patterns(scan),
            *_largest(scan),
            *_forms(scan),
            *table(("type", "keys", "INFO keysizes"), _types(scan), right=(1, 2)),
            *_tags(scan),
            *_nodes(scan),
            *(("", "notes") if said else ()),
            *(f"  {each}" for each in said),
        ]
    )


def size(number: float) -> str:
    """Bytes, in the unit that suits them."""
    unit = 0
    while number >= 1024 and unit + 1 < len(_BYTES):
        number /= 1024
        unit += 1
    return f"{number:,.0f} {_BYTES[unit]}" if unit == 0 else f"{number:,.1f} {_BYTES[unit]}"


def counted(scan: Scan, number: int, *figure: str) -> str:
    """A number of keys, and where it is an estimate, between which it is."""
    its = scan.bounds(*figure)
    return f"{number:,}" if its is None else f"{number:,} ({its.low:,} to {its.high:,})"


def sized(scan: Scan, row: _HasBytes, *figure: str) -> str:
    """The bytes of keys, as far as they are known, and where they are an estimate, between which they are."""
    if row.unmeasured and row.unmeasured == row.keys:
        return "-"
    its = scan.bounds(*figure, "bytes")
    between = "" if its is None else f" ({size(its.low)} to {size(its.high)})"
    return f"{'at least ' if row.unmeasured else ''}{size(row.bytes)}{between}"


class _Finding(NamedTuple):
    keys: str
    bytes: str
    excepted: str


def finding(scan: Scan, kind: Kind, row: FindingRow) -> _Finding:
    """How to say the figures of a finding."""
    its = "finding", *map(str, kind)
    known = scan.bounds(*its, "bytes")
    between = "" if known is None else f" ({size(known.low)} to {size(known.high)})"
    keys, excepted = (counted(scan, getattr(row, each), *its, each) for each in ("keys", "excepted"))
    return _Finding(keys, size(row.bytes) + between, excepted)


def node_bytes(scan: Scan, node: NodeFigures) -> str:
    """The bytes of a server's keys. A sample has no bounds for them."""
    return ("" if scan.sample is None else "about ") + _bytes(node.bytes, node.counted, node.unmeasured)


def sample_line(scan: Scan) -> str:
    """What a sample has looked at; "" if the scan is none."""
    if scan.sample is None:
        return ""
    looked = sum(node.counted for node in scan.nodes)
    return f"an estimate by a sample of {looked:,} keys: with 95 % intervals, and what it has not met may be there"


def _bytes(known: int, keys: int, unmeasured: int) -> str:
    if not unmeasured:
        return size(known)
    return "-" if unmeasured == keys else f"at least {size(known)}"


def progress_line(progress: Progress, seconds: float) -> str:
    """How far it is, how fast, and how long it may still take."""
    rate, done = progress.keys / seconds if seconds else 0.0, part_done(progress)
    left = f", about {_duration(seconds * (1 - done) / done)} left" if 0.001 < done < 1 else ""
    which = "the server" if progress.servers == 1 else "the busiest server"
    taken = f", {progress.taken:.1%} of the time of {which}" if progress.taken else ""
    states = "".join(f"; {_FORM.say(state)}" for state in progress.states)
    return f"{progress.keys:,} keys, {rate:,.0f}/s, {done:.0%} done{left}{taken}{states}"


def part_done(progress: Progress) -> float:
    """Which part of the keys it has come past."""
    return min(progress.shown / progress.expected, 1.0) if progress.expected else 0.0


def progress_bar(progress: Progress, seconds: float, columns: int) -> str:
    """The same with a bar, on one line of a terminal."""
    full = round(_BAR * part_done(progress))
    bar = f"[{'#' * full}{'.' * (_BAR - full)}] " if columns >= 3 * _BAR else ""
    return (bar + progress_line(progress, seconds))[: columns - 1]


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def _summary(scan: Scan) -> Iterator[str]:
    part = "" if scan.finished else " (a part: the scan did not come to its end)"
    about = "" if scan.sample is None else "about "
    yield f"{about}{scan.keys:,} keys, {sized(scan, scan, 'all')} in {scan.ended - scan.started:,.1f} s{part}"
    if line := sample_line(scan):
        yield line
    (_, _, shown), *others = ttl_counts(scan)
    yield "; ".join([f"TTL: none {shown}", *(f"{name} {told}" for name, count, told in others if count)])


def ttl_counts(scan: Scan) -> list[tuple[str, int, str]]:
    """How many keys have no TTL, and how many each span of TTLs; and how to say it."""
    rows = scan.apps.values()
    spans = [*(f"up to {_span(bound)}" for bound in TTL_BOUNDS), "longer"]
    counts = [("none", sum(row.without_ttl for row in rows), ("all", "without_ttl"))]
    counts += [(span, sum(row.ttls[at] for row in rows), ("ttl", str(at))) for at, span in enumerate(spans)]
    return [(span, count, counted(scan, count, *figure)) for span, count, figure in counts]


def _span(seconds: int) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def _owners(scan: Scan, contacts: Mapping[str, str]) -> Iterator[str]:
    faults = faults_by_app(scan)
    rows = [
        (
            _FORM.say(app or NOBODY),
            _FORM.say(row.team or "-"),
            counted(scan, row.keys, "app", app, "keys"),
            sized(scan, row, "app", app),
            counted(scan, row.without_ttl, "app", app, "without_ttl"),
            counted(scan, faults[app], "app", app, "findings"),
            _FORM.say(contacts.get(app, "")),
        )
        for app, row in scan.apps.items()
    ]
    yield from table(("owner", "team", "keys", "bytes", "no TTL", "findings", "contact"), rows, right=(2, 3, 4, 5))


def faults_by_app(scan: Scan) -> dict[str, int]:
    """How many faults the keys of each app have, without those under an exception."""
    rows = {app: scan.faults_of(app) for app in scan.apps}
    return {app: row.sure + row.unsure for app, row in rows.items()}


def _findings(scan: Scan) -> Iterator[str]:
    if not scan.findings:
        yield from ("", "no findings")
        return
    rows = [
        (fault, *(counted(scan, getattr(row, its), "fault", fault, its) for its in _FAULT_COLUMNS))
        for fault, row in scan.by_fault.items()
    ]
    heads = ("keys with findings", "enforced", "audit or warn", "may have it", "excepted")
    yield from table(heads, rows, right=range(1, 5))
    for fault in scan.by_fault:
        yield from ("", fault)
        yield from _rows_of(scan, [each for each in scan.worst_first if each[0].fault is fault])


def _rows_of(scan: Scan, found: Sequence[tuple[Kind, FindingRow]]) -> Iterator[str]:
    sure = [each for each in found if each[0].sure]
    for kind, row in sure[:_MOST_FINDINGS]:
        its = finding(scan, kind, row)
        excepted = f", {its.excepted} of them under an exception" if row.excepted else ""
        yield f"  {its.keys} by {_FORM.say(kind.rule)} ({kind.mode}){excepted}"
        whose = f"{_FORM.code(kind.pattern)} of {_FORM.say(kind.app or NOBODY)}"
        yield f"      {whose}, {its.bytes}: {'e.g. ' if row.keys > 1 else ''}{_FORM.say(row.text)}"
        yield f"      such as {', '.join(map(_FORM.code, row.exemplars))}"
    if len(sure) > _MOST_FINDINGS:
        rest = sum(row.keys for _, row in sure[_MOST_FINDINGS:])
        yield f"  and {rest:,} of {len(sure) - _MOST_FINDINGS:,} more patterns and rules (--json)"
    unsure: dict[tuple[str, str], int] = {}
    for kind, row in found:
        if not kind.sure:
            unsure[kind.rule, kind.mode] = unsure.get((kind.rule, kind.mode), 0) + row.keys
    for (rule, mode), keys in sorted(unsure.items(), key=lambda each: (-each[1], each[0])):
        yield f"  {keys:,} may have it by {_FORM.say(rule)} ({mode}): their members are not counted"


def _patterns(scan: Scan) -> Iterator[str]:
    heaviest = sorted(scan.patterns.items(), key=lambda each: (-each[1].bytes, -each[1].keys))[:_MOST_PATTERNS]
    rows = [
        (
            _FORM.code(place.pattern),
            _FORM.say(place.app or NOBODY),
            counted(scan, row.keys, "pattern", *place, "keys"),
            sized(scan, row, "pattern", *place),
        )
        for place, row in heaviest
    ]
    yield from table(("heaviest patterns", "owner", "keys", "bytes"), rows, right=(2, 3))


def _largest(scan: Scan) -> Iterator[str]:
    rows = [
        (
            _FORM.code(each.shown),
            each.type,
            "-" if each.members is None else f"{each.members:,}",
            size(each.memory),
            _FORM.say(each.place.app or NOBODY),
        )
        for each in scan.largest[:_MOST_LARGEST]
    ]
    of = "largest keys" if scan.sample is None else "largest of the sample"
    yield from table((of, "type", "members", "bytes", "owner"), rows, right=(2, 3))


def _forms(scan: Scan) -> Iterator[str]:
    about = "" if scan.sample is None else "about "
    rows = [
        (
            _FORM.say(rule),
            *(f"{about}{count:,}" for count in (row.compressed, row.plain, row.small, row.unknown, row.hash)),
            f"{size(row.stored_bytes)} for {size(row.plain_bytes)}",
            *(f"{about}{count:,}" for count in (row.older_dictionary, row.missing_dictionary)),
        )
        for rule, row in sorted(scan.forms.items())
    ]
    forms = ("compressed", "larger, plain", "small", "not known", "hashes", "bytes of compressed ones")
    heads = ("compress rule", *forms, "older dictionary", "missing one")
    yield from table(heads, rows, right=range(1, len(heads)))


def _tags(scan: Scan) -> Iterator[str]:
    rows = [(_FORM.code(each.shape), f"{each.keys:,}", _FORM.say(each.why)) for each in scan.tags]
    yield from table(("unusual hash tags", "keys", "why"), rows, right=(1,))


def _types(scan: Scan) -> list[tuple[str, str, str]]:
    return [(_FORM.say(name), f"{keys:,}", f"{told:,}") for name, keys, told in compared_types(scan)]


def compared_types(scan: Scan) -> list[tuple[str, int, int]]:
    """The keys of each type that were counted, and those that INFO keysizes has, where all servers have it. It is asked
    at the end of a walk. A sample is not compared."""
    if scan.sample is not None or not all(node.keysizes for node in scan.nodes if node.counted):
        return []
    told, keys = Counter[str](), Counter[str]()
    for node in scan.nodes:
        told.update(node.keysizes)
    for row in scan.patterns.values():
        keys.update(row.types)
    return [(name, keys[name], told[name]) for name in sorted(told)]


def _nodes(scan: Scan) -> Iterator[str]:
    rows = [
        (
            _FORM.say(node.name),
            f"{node.counted:,}",
            node_bytes(scan, node),
            f"{node.before:,}",
            f"{node.after:,}",
            f"{node.repeated:,}",
            f"{node.restarts:,}",
            size(node.info["used_memory"]) if "used_memory" in node.info else "-",
        )
        for node in scan.nodes
    ]
    heads = (
        "server",
        "keys" if scan.sample is None else "looked at",
        "bytes",
        "DBSIZE before",
        "after",
        "repeated",
        "restarts",
        "used memory",
    )
    yield from table(heads, rows, right=range(1, 8))
    yield from _skew(scan.nodes)
    if scan.slots:
        heaviest = ", ".join(
            f"{each.slot} ({each.keys:,} keys, {size(each.bytes)})" for each in scan.slots[:_MOST_SLOTS]
        )
        yield f"{scan.used_slots:,} slots have keys; heaviest: {heaviest}"


def _skew(nodes: Sequence[NodeFigures]) -> Iterator[str]:
    most, mean = max((node.bytes for node in nodes), default=0), sum(node.bytes for node in nodes) / max(len(nodes), 1)
    if len(nodes) > 1 and mean:
        yield f"the largest node has {most / mean:.2f} times the mean"


def notes(scan: Scan) -> list[str]:
    """What the result lacks."""
    said = [_FORM.say(note) for note in scan.notes]
    if scan.sample is not None:
        said.append("a sample is never complete: no figure is one of all keys, and no key is proved to be missing")
    for node in scan.nodes:
        if node.restarts:
            said.append(
                f"{_FORM.say(node.name)}: its walk started over {node.restarts} times, since the server was another one"
            )
        if node.unreadable:
            said.append(
                f"{_FORM.say(node.name)}: the user may not read {node.unreadable:,} keys: these are not counted"
            )
        if node.elsewhere:
            said.append(f"{node.elsewhere:,} keys lie on {_FORM.say(node.name)}, which did not own their slots")
        if node.gone:
            said.append(f"{node.gone:,} keys of {_FORM.say(node.name)} were gone when they were looked at")
    if scan.expected_missed:
        said.append(f"about {scan.expected_missed:,.1f} keys were taken for repeated ones, and are missing")
    return said


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> Iterator[str]:
    """The lines of a table, an empty one before; none without rows. ``right``: columns of numbers."""
    if not rows:
        return
    yield ""
    columns = {*right}
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        cells = (
            each.rjust(w) if at in columns else each.ljust(w)
            for at, (each, w) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()
