"""One worker's question to all others: the first that knows answers it, the last that does not ends it."""

from proxy.server.searches import Searches


class Asking:
    """A question of worker 0 to some others, and what it was told."""

    def __init__(self, searches: Searches[int, str], others: list[int]) -> None:
        self.asked: dict[int, int] = {}
        self.told: list[str | None] = []
        searches.begin(others, self.asked.__setitem__, self.told.append)


def test_with_nobody_else_nobody_knows() -> None:
    assert Asking(Searches(), []).told == [None]


def test_the_first_that_knows_answers_and_it_is_told_once() -> None:
    searches: Searches[int, str] = Searches()
    asking = Asking(searches, [1, 2, 3])
    for place, answer in ((1, None), (2, "known"), (3, "known as well")):
        searches.hear(place, asking.asked[place], answer)
    assert asking.told == ["known"]


def test_when_all_have_said_no_nobody_knows() -> None:
    searches: Searches[int, str] = Searches()
    asking, other = Asking(searches, [1, 2]), Asking(searches, [1, 2])
    searches.hear(1, asking.asked[1], None)
    searches.hear(1, asking.asked[1], None)
    assert asking.told == []
    searches.hear(2, asking.asked[2], None)
    assert (asking.told, other.told) == ([None], [])


def test_one_that_is_gone_is_not_waited_for() -> None:
    searches: Searches[int, str] = Searches()
    asking = Asking(searches, [1, 2])
    searches.hear(1, asking.asked[1], None)
    searches.forget(2)
    assert asking.told == [None]
