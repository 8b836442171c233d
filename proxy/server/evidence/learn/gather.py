"""What the evidence has for a learnt policy: facts by shape, shown keys, commands by app, and all recorded commands."""

import re
from collections import Counter
from dataclasses import dataclass, field

from proxy.commands.spec import Spec
from proxy.commands.table import STANDARD
from proxy.server.evidence.learn.clients import Clients, clients_of
from proxy.server.evidence.learn.facts import Facts, Use, facts_of, stated_ttl
from proxy.server.evidence.learn.families import Dates
from proxy.server.evidence.learn.judging import Recorded
from proxy.server.evidence.model import Evidence
from proxy.server.evidence.sample_keys import with_sample_keys
from proxy.traffic.command_form import form_of
from proxy.traffic.evidence_rows import EvidenceRows, Exemplar, FormKey, Identity, VerdictKey
from proxy.traffic.exemplars import PLACEHOLDER, Remade, nearest
from proxy.traffic.shapes import shape as shape_of

_TIME_OF_DAY = re.compile(rb"[0-9][T_][0-9]{2}")
_MOST_KEYS = 50
_DATE = "{date}"


@dataclass(slots=True)
class Gathered:
    """What is known. Commands are counted by the name of the learnt app, `loose` those that one of several may send.

    `untold` are apps with commands of which not even the name is known. `unseen` counts commands of forms without an
    exemplar, `folded` those whose keys and forms were not told apart, `unsampled` those that were not looked at.
    """

    clients: Clients
    shapes: dict[str, Facts] = field(default_factory=dict)
    keys: dict[str, set[bytes]] = field(default_factory=dict)
    recorded: list[Recorded] = field(default_factory=list)
    commands: dict[str, Counter[str]] = field(default_factory=dict)
    untold: set[str] = field(default_factory=set)
    forms: int = 0
    forms_without_exemplar: int = 0
    unseen: int = 0
    folded: Counter[str] = field(default_factory=Counter)
    total: int = 0
    looked_at: int = 0

    @property
    def literals(self) -> list[str]:
        """The keys that have the text of a placeholder, such as ``user:{uuid}``."""
        shown = (key for keys in self.keys.values() for key in keys)
        return sorted(text for key in shown if PLACEHOLDER.search(text := key.decode("utf-8", "replace")))

    @property
    def dates(self) -> Dates:
        """What shown keys tell of dates; of hidden keys anything may be true but a separator."""
        dated = [shape for shape in self.shapes if _DATE in shape]
        times = {shape for shape in dated if not self.keys.get(shape) or any(map(_has_time, self.keys[shape]))}
        separated = {
            shape
            for shape in dated
            if any(key.count(b":") != shape.count(":") for key in self.keys.get(shape, ()) if _has_time(key))
        }
        return Dates(frozenset(times), frozenset(separated))


def _has_time(key: bytes) -> bool:
    return _TIME_OF_DAY.search(key) is not None


def gather(evidence: Evidence, app: str, most_apps: int) -> Gathered:
    """What the evidence has about an app in force; empty: about all."""
    hours = [_of_app(rows, app) for _, rows in sorted(evidence.hours.items())]
    weights: Counter[Identity] = Counter()
    for rows in hours:
        for command, count in rows.commands.items():
            weights[command.who] += count
        for who in (*(key.who for key in rows.forms), *(key.who for key in rows.verdicts)):
            weights[who] += 1
    found = Gathered(clients_of({who: weight for who, weight in weights.items() if not who.folded}, most_apps))
    counts: Counter[FormKey] = Counter()
    seen: dict[FormKey, dict[tuple[str, ...], tuple[Exemplar, Remade]]] = {}
    for rows in hours:
        plain = _shows_keys(rows)
        for command, count in rows.commands.items():
            found.total += count
            _count(found, command.who, command.command, count)
        for key, row in rows.forms.items():
            counts[key] += row.count
            found.looked_at += row.seen
            found_here = ((each, _made(each, key.shape, key.form, plain)) for each in row.exemplars)
            its = seen.setdefault(key, {})
            its.update((each.words, (each, one)) for each, one in found_here if one is not None)
        for verdict, hits in rows.verdicts.items():
            for each in hits.exemplars:
                one = _made(each, verdict.shape, "", plain)
                if one is not None and verdict.command:
                    _add_verdict(found, verdict, each, one)
    for key, count in counts.items():
        _add_form(found, key, count, list(seen[key].values()))
    return found


def _made(seen: Exemplar, its_shape: str, form: str, plain: bool) -> Remade | None:
    made = nearest(seen.words, its_shape, form, STANDARD, plain=plain)
    return None if made is None else with_sample_keys(made)


def _shows_keys(rows: EvidenceRows) -> bool:
    """Whether keys are shown in these rows: some exemplar has a key with an id."""
    return any(
        shape_of(its.name) == key.shape != its.name.decode("utf-8", "replace")
        for key, row in rows.forms.items()
        if PLACEHOLDER.search(key.shape)
        for each in row.exemplars
        if (made := nearest(each.words, key.shape, key.form, STANDARD)) is not None
        for its in made.command.known_keys[:1]
    )


def _of_app(rows: EvidenceRows, app: str) -> EvidenceRows:
    if not app:
        return rows
    return EvidenceRows(
        {key: row for key, row in rows.verdicts.items() if key.who.app == app},
        {key: count for key, count in rows.commands.items() if key.who.app == app},
        {key: row for key, row in rows.forms.items() if key.who.app == app},
    )


def _count(found: Gathered, who: Identity, command: str, count: int) -> None:
    for app in found.clients.that_may_be(who):
        if command:
            found.commands.setdefault(app, Counter())[command] += count
        else:
            found.untold.add(app)


def _add_verdict(found: Gathered, verdict: VerdictKey, seen: Exemplar, made: Remade) -> None:
    _count(found, verdict.who, verdict.command, 0)
    form = "" if made.cut else form_of(made.command)
    _add_uses(found, FormKey(verdict.who, verdict.command, verdict.shape, form), 1, [(seen, made)])


def _add_form(found: Gathered, key: FormKey, count: int, replayed: list[tuple[Exemplar, Remade]]) -> None:
    _count(found, key.who, key.command, 0)
    if key.who.folded or not key.command:
        found.folded[key.who.app] += count
        return
    found.forms += 1
    if not replayed:
        found.forms_without_exemplar += 1
        found.unseen += count
    _add_uses(found, key, count, replayed)


def _add_uses(found: Gathered, key: FormKey, count: int, replayed: list[tuple[Exemplar, Remade]]) -> None:
    app = found.clients.name_of(key.who)
    spec = STANDARD.find(key.command) or STANDARD.specs[0]
    use = Use(app, spec, key.form, count)
    writes = {(key.shape, _writes(spec))} if key.shape and not replayed else set()
    for seen, one in replayed:
        found.recorded.append(Recorded(key.who, seen.at, one, key.form, app))
        places = zip(one.shapes, one.command.known_keys, strict=False)
        for shape, its in places:
            writes.add((shape, its.write))
            keys = found.keys.setdefault(shape, set())
            if not one.hidden and len(keys) < _MOST_KEYS:
                keys.add(its.name)
        exact = stated_ttl(one.command, seen.at)
        for shape in one.shapes if exact is not None else ():
            found.shapes.setdefault(shape, Facts()).add(Facts(exact_ttls=exact))
    for shape, write in writes:
        if shape:
            found.shapes.setdefault(shape, Facts()).add(facts_of(use, write))


def _writes(spec: Spec) -> bool:
    return "write" in spec.categories
