"""Evidence as JSON: what ``/evidence`` answers, and what the commands that judge by evidence read.

    {"spans": [[began, ended], …], "lost": {reason: count}, "rules": [[route, rule, digest, since], …],
     "hours": [{"hour": 1764230400, "route": "default",
                "verdicts": [[rule, mode, outcome, WHO, command, shape, count, first, last, EXEMPLARS], …],
                "commands": [[WHO, command, count], …],
                "forms": [[WHO, command, shape, form, count, seen, EXEMPLARS], …]}]}

WHO is [app, user, name, library, address], EXEMPLARS are [[words, at, why], …]. Times are in seconds since the epoch.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from proxy.server.evidence.model import Evidence, EvidenceError, RuleVersion
from proxy.traffic.evidence_rows import (
    CommandKey,
    EvidenceRows,
    Exemplar,
    FormKey,
    FormRow,
    Identity,
    VerdictKey,
    VerdictRow,
)


def json_pieces(evidence: Evidence, facts: Mapping[str, Any]) -> Iterator[str]:
    """The JSON of evidence and of the "facts" about policies. No other thread runs while the encoder makes a piece, so
    that each hour is one."""
    rest = {
        "facts": facts,
        "spans": evidence.spans,
        "lost": evidence.lost,
        "rules": [[each.route, each.rule, each.digest, each.since] for each in evidence.rules],
    }
    yield json.dumps(rest)[:-1] + ', "hours": ['
    between = ""
    for (hour, route), rows in evidence.hours.items():
        yield between + json.dumps({"hour": hour, "route": route, **_rows_to_json(rows)})
        between = ", "
    yield "]}"


def _rows_to_json(rows: EvidenceRows) -> dict[str, Any]:
    return {
        "verdicts": [[*key, row.count, row.first, row.last, _kept(row)] for key, row in rows.verdicts.items()],
        "commands": [[*key, count] for key, count in rows.commands.items()],
        "forms": [[*key, row.count, row.seen, _kept(row)] for key, row in rows.forms.items()],
    }


def from_json(found: Any) -> Evidence:
    """Evidence from the values of its JSON. Raises EvidenceError for anything else."""
    try:
        return Evidence(
            spans=[(float(began), float(ended)) for began, ended in found["spans"]],
            lost={str(reason): int(count) for reason, count in found["lost"].items()},
            rules=[RuleVersion(str(r), str(rule), str(d), float(since)) for r, rule, d, since in found["rules"]],
            hours={(int(hour["hour"]), str(hour["route"])): _rows_from_json(hour) for hour in found["hours"]},
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise EvidenceError(f"this is no evidence of Keyrail: {type(error).__name__}: {error}") from None


def _rows_from_json(found: Any) -> EvidenceRows:
    rows = EvidenceRows()
    for rule, mode, outcome, who, command, shape, count, first, last, exemplars in found["verdicts"]:
        key = VerdictKey(str(rule), str(mode), str(outcome), _identity(who), str(command), str(shape))
        rows.verdicts[key] = VerdictRow(int(count), float(first), float(last), _exemplars(exemplars))
    for who, command, count in found["commands"]:
        rows.commands[CommandKey(_identity(who), str(command))] = int(count)
    for who, command, shape, form, count, seen, exemplars in found["forms"]:
        form_key = FormKey(_identity(who), str(command), str(shape), str(form))
        rows.forms[form_key] = FormRow(int(count), int(seen), _exemplars(exemplars))
    return rows


def _identity(found: Iterable[Any]) -> Identity:
    app, user, name, library, address = found
    return Identity(str(app), str(user), str(name), str(library), str(address))


def _kept(row: VerdictRow | FormRow) -> list[tuple[Any, ...]]:
    return [each.kept for each in row.exemplars]


def _exemplars(found: Iterable[Any]) -> list[Exemplar]:
    return [
        Exemplar(tuple(str(word) for word in words), float(at), str(why), *map(str, prefix))
        for words, at, why, *prefix in found
    ]
