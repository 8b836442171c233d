"""A window's figures: bounds that hold over any slices and workers, the right stretch of time, an honest age."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.hotpath.counters import Counters
from proxy.traffic.merge import Answer, Entry, merge, present
from proxy.traffic.windows import LONGEST_WINDOW, Windows

keys = st.integers(0, 60).map(lambda n: b"k%d" % n)
slices = st.lists(st.lists(st.tuples(keys, st.booleans()), max_size=120), max_size=8)


def use(counters: Counters, key: bytes, times: int = 1, *, write: bool = False) -> None:
    for _ in range(times):
        counters.add(key, 0, len(key), write)


def answer(total: int, keys: list[Entry[str]], *, age: float = 0.0, seconds: float = 60.0, floor: int = 0) -> Answer:
    return Answer(window=60, seconds=seconds, age=age, total=total, floor=floor, keys=keys)


def assert_bounds_hold(answer: Answer, truth: Counter[tuple[bytes, bool]]) -> None:
    times = Counter[str]()
    for (key, _), n in truth.items():
        times[key.decode()] += n
    assert answer["total"] == times.total()
    listed = set()
    for name, count, error, reads, writes in answer["keys"]:
        listed.add(name)
        assert count - error <= times[name] <= count
        assert reads + writes == count - error
        assert reads <= truth[name.encode(), False] <= reads + error
        assert writes <= truth[name.encode(), True] <= writes + error
    assert all(n <= answer["floor"] for name, n in times.items() if name not in listed)


@settings(deadline=None)
@given(st.lists(slices, min_size=1, max_size=3), st.integers(1, 10))
def test_bounds_hold_over_slices_and_workers(workers: list[list[list[tuple[bytes, bool]]]], window: int) -> None:
    answers = []
    truth: Counter[tuple[bytes, bool]] = Counter()
    for stream in workers:
        counters = Counters(sets=2)
        windows = Windows(counters, 0.0)
        for second, uses in enumerate(stream):
            for key, write in uses:
                use(counters, key, write=write)
            windows.rotate(second + 1.0)
        now = float(len(stream))
        for uses in stream[max(0, len(stream) - window) :]:
            truth.update(uses)
        answers.append(windows.answer(window, now))
        assert answers[-1]["age"] == 0.0
    assert_bounds_hold(merge(answers), truth)
    assert_bounds_hold(merge(answers, limit=3), truth)


def test_a_window_holds_what_happened_in_it_and_nothing_older() -> None:
    counters = Counters()
    windows = Windows(counters, 100.0)
    for second in range(1, 31):
        use(counters, b"old" if second <= 15 else b"new", 10)
        windows.rotate(100.0 + second)
    assert [(k["key"], k["count"]) for k in windows.busiest(9, 10, 130.0)["keys"]] == [("new", 100)]
    assert [(k["key"], k["count"]) for k in windows.busiest(9, 20, 130.0)["keys"]] == [("new", 150), ("old", 50)]
    assert [(k["key"], k["count"]) for k in windows.busiest(9, 60, 130.0)["keys"]] == [("old", 150), ("new", 150)]
    assert windows.busiest(9, 10, 145.0)["keys"] == []


def test_a_question_closes_the_running_slice() -> None:
    counters = Counters()
    windows = Windows(counters, 0.0)
    use(counters, b"k", 3)
    young = windows.answer(60, 0.1)
    assert (young["keys"], young["age"]) == ([], 0.1)
    answer = windows.answer(60, 0.5)
    assert (answer["keys"], answer["age"]) == ([("k", 3, 0, 3, 0)], 0.0)


def test_slices_are_forgotten_however_often_somebody_asks() -> None:
    windows = Windows(Counters(), 0.0)
    now = 0.0
    for _ in range(3000):
        now += 0.1
        windows.answer(10, now)
    assert len(windows._stretches) <= LONGEST_WINDOW / 0.25


def test_a_key_is_presented_with_its_share_and_reads_and_writes() -> None:
    counters = Counters()
    windows = Windows(counters, 0.0)
    use(counters, b"user:1", 6)
    use(counters, b"user:1", 2, write=True)
    use(counters, b"user:2", 2)
    assert windows.busiest(1, 60, 1.0) == {
        "window": 60,
        "age": 0.0,
        "keys": [{"key": "user:1", "count": 8, "error": 0, "share": 0.8, "reads": 6, "writes": 2}],
    }


def test_a_key_that_a_worker_does_not_list_may_have_been_used_there_as_often_as_its_floor() -> None:
    one = answer(100, [("a", 90, 0, 90, 0), ("b", 10, 2, 8, 0)], age=0.25)
    two = answer(50, [("a", 40, 1, 30, 9)], age=0.75, seconds=59.5, floor=5)
    merged = merge([one, two])
    assert merged == {
        "window": 60,
        "seconds": 60.0,
        "age": 0.75,
        "total": 150,
        "floor": 5,
        "keys": [("a", 130, 1, 120, 9), ("b", 15, 7, 8, 0)],
    }
    assert present(merged, 1)["keys"][0]["share"] == round(130 / 150, 6)


def test_keys_that_an_answer_leaves_out_raise_its_floor() -> None:
    one = answer(9, [("a", 4, 0, 4, 0), ("b", 3, 0, 3, 0), ("c", 2, 0, 2, 0)])
    merged = merge([one], limit=1)
    assert (merged["keys"], merged["floor"]) == ([("a", 4, 0, 4, 0)], 3)


def test_no_worker_and_no_traffic_is_an_empty_answer() -> None:
    assert present(merge([]), 10) == {"window": 0, "age": 0.0, "keys": []}
    assert Windows(Counters(), 5.0).busiest(10, 60, 7.0) == {"window": 60, "age": 0.0, "keys": []}


def test_a_certain_key_ranks_before_one_that_only_might_be_busy() -> None:
    sure = answer(99, [("sure", 20, 0, 20, 0), ("might", 40, 35, 5, 0)])
    assert [key["key"] for key in present(merge([sure]), 2)["keys"]] == ["sure", "might"]
