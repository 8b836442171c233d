"""Evidence stays bounded, loses no count, and adds up over workers."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from proxy.traffic import evidence_rows as module
from proxy.traffic.evidence_rows import (
    CommandKey,
    EvidenceRows,
    Exemplar,
    FormKey,
    FormRow,
    Identity,
    VerdictKey,
    VerdictRow,
    fold_verdicts,
    newest,
)

_WHO = st.builds(Identity, st.sampled_from("ab"), st.sampled_from(["", "u", "v"]), st.sampled_from(["", "n"]))
_VERDICTS = st.builds(
    VerdictKey,
    *map(st.sampled_from, ("rs", ["audit", "warn"], ["refused"])),
    _WHO,
    st.sampled_from(["", "GET", "SET"]),
    st.sampled_from([f"shape{number}" for number in range(30)]),
)
_FORMS = st.builds(FormKey, _WHO, st.sampled_from(["", "GET"]), st.sampled_from(["a", "b"]), st.sampled_from("xyz"))
_COUNTS = st.integers(1, 9)


def rows_of(
    verdicts: dict[VerdictKey, int], commands: dict[tuple[Identity, str], int], forms: dict[FormKey, int]
) -> EvidenceRows:
    return EvidenceRows(
        {key: VerdictRow(count, count, 10 - count) for key, count in verdicts.items()},
        {CommandKey(*key): count for key, count in commands.items()},
        {key: FormRow(2 * count, count) for key, count in forms.items()},
    )


_ROWS = st.builds(
    rows_of,
    st.dictionaries(_VERDICTS, _COUNTS),
    st.dictionaries(st.tuples(_WHO, st.sampled_from(["GET", "SET", "DEL"])), _COUNTS),
    st.dictionaries(_FORMS, _COUNTS),
)


def sums(rows: EvidenceRows) -> list[Counter[tuple[str, ...]]]:
    verdicts, commands, forms = Counter[tuple[str, ...]](), Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for key, row in rows.verdicts.items():
        verdicts[key.rule, key.mode, key.outcome, key.who.app] += row.count
    for command, count in rows.commands.items():
        commands[(command.who.app,)] += count
    for form, found in rows.forms.items():
        forms[(form.who.app,)] += found.count
    return [verdicts, commands, forms]


@given(_ROWS, _ROWS)
def test_sums_are_exact_whatever_is_added_and_folded(one: EvidenceRows, other: EvidenceRows) -> None:
    expected = [mine + others for mine, others in zip(sums(one), sums(other), strict=True)]
    first = min((row.first for rows in (one, other) for row in rows.verdicts.values()), default=None)
    one.add(other)
    assert sums(one) == expected
    before = module.MOST_VERDICTS, module.MOST_COMMANDS, module.MOST_FORMS
    module.MOST_VERDICTS = module.MOST_COMMANDS = module.MOST_FORMS = 4
    try:
        one.fold()
    finally:
        module.MOST_VERDICTS, module.MOST_COMMANDS, module.MOST_FORMS = before
    assert sums(one) == expected
    assert first == min((row.first for row in one.verdicts.values()), default=None)
    apart = Counter(key.rule for key in one.verdicts if key.command)
    assert all(count <= 4 for count in apart.values())
    assert sum(not command.who.folded for command in one.commands) <= 4


def test_the_heaviest_keep_their_rows_and_what_is_folded_shows_no_exemplars() -> None:
    verdicts = {
        VerdictKey("r", "audit", "refused", Identity("a", "u"), "GET", f"s{n}"): VerdictRow(
            n + 1, 1.0, 2.0, [Exemplar(("GET", f"s{n}"), 1.0)]
        )
        for n in range(20)
    }
    fold_verdicts(verdicts, 10)
    assert {key.shape for key in verdicts} == {"", *(f"s{n}" for n in range(15, 20))}
    assert verdicts[VerdictKey("r", "audit", "refused", Identity("a"))] == VerdictRow(sum(range(1, 16)), 1.0, 2.0)


def test_of_equal_exemplars_one_is_kept_and_the_newest_come_first() -> None:
    made = [Exemplar((word,), at) for at, word in enumerate("abcab")]
    assert [(each.words[0], each.at) for each in newest(made[:3], made[3:])] == [("b", 4), ("a", 3), ("c", 2)]
