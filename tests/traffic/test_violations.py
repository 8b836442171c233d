"""A violation is one line of at most 4096 bytes, for any client names."""

import json

from hypothesis import given
from hypothesis import strategies as st

from proxy.traffic.violations import MOST_BYTES, LineBudget, violation_line

_TEXT = st.text(max_size=400) | st.text(st.characters(min_codepoint=0x10000), min_size=64, max_size=400)


@given(
    st.fixed_dictionaries(dict.fromkeys(("rule", "app", "key", "shape", "why", "user", "client_name"), _TEXT)),
    st.fixed_dictionaries({"app": _TEXT, "key": _TEXT}),
)
def test_one_line_of_ascii(fields: dict[str, str], tenant: dict[str, str]) -> None:
    line = violation_line(1.5, {**fields, "tenant": tenant})
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert len(line) <= MOST_BYTES
    assert all(32 <= byte < 127 for byte in line[:-1])
    read = json.loads(line)
    assert read["time"] == "1970-01-01T00:00:01.500Z"
    assert read.pop("tenant").keys() == {"app", "key"}
    assert set(read) - {"time"} == {name for name, text in fields.items() if text}


def test_a_burst_then_so_many_each_second_and_the_rest_is_counted() -> None:
    line_budget = LineBudget(each_second=2, burst=5)
    assert [line_budget.take() for _ in range(8)] == [True] * 5 + [False] * 3
    assert line_budget.another_second() == 3
    assert [line_budget.take() for _ in range(3)] == [True, True, False]
    for _ in range(10):
        line_budget.another_second()
    assert [line_budget.take() for _ in range(6)] == [True] * 5 + [False]
