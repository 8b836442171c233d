"""Evidence survives JSON, and anything else is refused with a reason."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.server.evidence.json_form import from_json, json_pieces
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

_TEXT = st.text(max_size=5)
_WHO = st.builds(Identity, _TEXT, _TEXT, _TEXT, _TEXT, _TEXT)
_TIME = st.floats(0, 2e9)
_COUNT = st.integers(1, 1 << 60)
_EXEMPLARS = st.lists(st.builds(Exemplar, st.tuples(_TEXT, _TEXT), _TIME, _TEXT), max_size=2)
_ROWS = st.builds(
    EvidenceRows,
    st.dictionaries(
        st.builds(VerdictKey, _TEXT, _TEXT, _TEXT, _WHO, _TEXT, _TEXT),
        st.builds(VerdictRow, _COUNT, _TIME, _TIME, _EXEMPLARS),
        max_size=3,
    ),
    st.dictionaries(st.builds(CommandKey, _WHO, _TEXT), _COUNT, max_size=3),
    st.dictionaries(
        st.builds(FormKey, _WHO, _TEXT, _TEXT, _TEXT), st.builds(FormRow, _COUNT, _COUNT, _EXEMPLARS), max_size=3
    ),
)
_EVIDENCE = st.builds(
    Evidence,
    st.lists(st.tuples(_TIME, _TIME), max_size=3),
    st.dictionaries(st.tuples(st.integers(0, 99).map(lambda hour: hour * 3600), _TEXT), _ROWS, max_size=3),
    st.lists(st.builds(RuleVersion, _TEXT, _TEXT, _TEXT, _TIME), max_size=2),
    st.dictionaries(_TEXT, _COUNT, max_size=2),
)


@given(_EVIDENCE)
def test_it_comes_back_as_it_was(evidence: Evidence) -> None:
    pieces = list(json_pieces(evidence, {"default": {"apps": {}}}))
    found = json.loads("".join(pieces))
    assert from_json(found) == evidence
    assert found["facts"] == {"default": {"apps": {}}}
    assert len(pieces) == len(evidence.hours) + 2, "another thread may run between hours"


@pytest.mark.parametrize("found", [[], {}, {"spans": 1, "lost": {}, "rules": [], "hours": []}, "x", None])
def test_anything_else_is_an_error(found: object) -> None:
    with pytest.raises(EvidenceError, match="no evidence of Keyrail"):
        from_json(found)
