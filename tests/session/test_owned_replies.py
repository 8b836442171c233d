"""Each reply goes to the command that it is the reply to, however commands over several slots, single ones, Keyrail's
own answers and redirects follow each other.

The histories are made from seeds (``owned_replies.py``). The fault that they were made for, an object of the order that
is complete and becomes the place of another command, is in 3 to 5 of a thousand.
"""

from __future__ import annotations

import pytest

from proxy.hotpath.order.interleaved import Interleaved
from proxy.hotpath.order.reply_order import ReplyOrder, Segment
from tests.conftest import seeds
from tests.session.owned_replies import STEPS, fault

AT_ONCE = 20


def first_fault(first: int, histories: int) -> str:
    """The first fault of so many histories; empty if there is none."""
    for seed in range(first, first + histories):
        found = fault(seed, range(STEPS))
        if found is not None:
            return "\n".join([f"seed {seed}: {found[0]}", *found[1]])
    return ""


@pytest.mark.parametrize("part", seeds(10, 50))
def test_each_reply_is_the_one_of_its_command(part: int) -> None:
    found = first_fault(part * AT_ONCE, AT_ONCE)
    assert not found, found


@pytest.mark.source
def test_a_complete_segment_that_is_used_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    new = ReplyOrder.place

    def place(order: ReplyOrder) -> Segment:
        last = order.last
        return last if isinstance(last, Interleaved) and last.pending_replies == 0 else new(order)

    monkeypatch.setattr(ReplyOrder, "place", place)
    assert first_fault(0, AT_ONCE)
