"""The memory of sizes is bounded for any keys, and never wrong."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy.rules.sizes_known import MOST_BYTES, KnownSizes

STEP = st.tuples(
    st.sampled_from(["learn", "learn", "learn", "forget"]),
    st.integers(0, 1),
    st.sampled_from(["HLEN", "SCARD"]),
    st.integers(0, 12),
    st.sampled_from([1, 100_000, 1 << 20, MOST_BYTES, MOST_BYTES + 1]),
)


@given(st.lists(STEP, max_size=60))
def test_keys_take_no_more_than_so_many_bytes_and_the_newest_stay(
    steps: list[tuple[str, int, str, int, int]],
) -> None:
    sizes, told = KnownSizes(10), {}
    for now, (what, database, measure, which, length) in enumerate(steps):
        key = b"%d" % which * (length // len(b"%d" % which))
        if what == "learn":
            sizes.learn(database, measure, key, now, 0.0)
            told[database, measure, key] = now
        else:
            sizes.forget(database, measure, key)
            told.pop((database, measure, key), None)
        known = {each: sizes.find(*each, 1.0) for each in told}
        kept = {each: size for each, size in known.items() if size is not None}
        assert all(told[each] == size for each, size in kept.items())
        assert sum(len(key) for _, _, key in kept) == sizes.bytes <= MOST_BYTES
        if what == "learn" and len(key) <= MOST_BYTES:
            assert (database, measure, key) in kept
