"""Replies of RESP3 become those of RESP2. That engines agree is shown in ``tests/commands``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.conversion import as_resp2
from tests.resp import frame_end


@pytest.mark.parametrize(
    ("resp3", "resp2"),
    [
        (b"+string\r\n", b"+string\r\n"),
        (b":7\r\n", b":7\r\n"),
        (b"-WRONGTYPE x\r\n", b"-WRONGTYPE x\r\n"),
        (b"$5\r\na\r\nbc\r\n", b"$5\r\na\r\nbc\r\n"),
        (b"$0\r\n\r\n", b"$0\r\n\r\n"),
        (b"_\r\n", b"$-1\r\n"),
        (b",-inf\r\n", b"$4\r\n-inf\r\n"),
        (b"#t\r\n", b":1\r\n"),
        (b"#f\r\n", b":0\r\n"),
        (b"=7\r\ntxt:a\r\n\r\n", b"$3\r\na\r\n\r\n"),
        (b"~2\r\n:1\r\n$1\r\na\r\n", b"*2\r\n:1\r\n$1\r\na\r\n"),
        (b"%2\r\n+a\r\n:1\r\n+b\r\n_\r\n", b"*4\r\n+a\r\n:1\r\n+b\r\n$-1\r\n"),
        (b"*2\r\n*2\r\n$1\r\na\r\n,1\r\n*0\r\n", b"*2\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n*0\r\n"),
    ],
)
def test_each_type_has_its_form(resp3: bytes, resp2: bytes) -> None:
    assert as_resp2(resp3) == resp2


def test_nulls_can_be_arrays() -> None:
    assert as_resp2(b"*2\r\n_\r\n*2\r\n,1\r\n,2\r\n", null_arrays=True) == b"*2\r\n*-1\r\n*2\r\n$1\r\n1\r\n$1\r\n2\r\n"


def test_pairs_can_stand_one_after_the_other() -> None:
    assert as_resp2(b"*2\r\n*2\r\n$1\r\na\r\n,1\r\n*2\r\n$1\r\nb\r\n,2\r\n", flat=True) == (
        b"*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n"
    )
    assert as_resp2(b"*2\r\n$1\r\na\r\n$1\r\nb\r\n", flat=True) == b"*2\r\n$1\r\na\r\n$1\r\nb\r\n"
    assert as_resp2(b"*0\r\n", flat=True) == b"*0\r\n"


def test_a_type_that_no_read_answers_is_refused() -> None:
    with pytest.raises(ValueError, match="no element"):
        as_resp2(b">1\r\n:1\r\n")


LEAVES = st.one_of(
    st.integers(-9, 99).map(lambda number: b":%d\r\n" % number),
    st.binary(max_size=9).map(lambda value: b"$%d\r\n%b\r\n" % (len(value), value)),
    st.sampled_from([b"_\r\n", b",1.5\r\n", b"#t\r\n", b"+OK\r\n"]),
)
FRAMES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda each: b"*%d\r\n%b" % (len(each), b"".join(each))),
        st.lists(inner, max_size=4).map(lambda each: b"~%d\r\n%b" % (len(each), b"".join(each))),
        st.lists(st.tuples(inner, inner), max_size=3).map(
            lambda each: b"%%%d\r\n%b" % (len(each), b"".join(key + value for key, value in each))
        ),
    ),
    max_leaves=12,
)


@given(FRAMES, st.booleans(), st.booleans())
def test_the_result_is_one_whole_frame_of_resp2(frame: bytes, null_arrays: bool, flat: bool) -> None:
    converted = as_resp2(frame, null_arrays=null_arrays, flat=flat)
    assert frame_end(converted, 0) == len(converted)
