"""A worker asks the others once for each script, for any number of clients, and no client waits for ever."""

from __future__ import annotations

import asyncio

import pytest

from proxy.net.follow.script_exchange import ScriptExchange
from proxy.rules.scripts.memory import ScriptKey, ScriptMemory, script_key
from proxy.rules.scripts.text import ScriptCalls
from proxy.rules.shared_state import Fact
from tests.net.waiters import Waiter

ONE, TWO = script_key(b"1"), script_key(b"2")


class Others:
    """The other workers of an exchange, which answer when a test says so."""

    def __init__(self) -> None:
        self.asked: list[ScriptKey] = []
        self.replies: list[asyncio.Future[Fact | None]] = []
        memory = ScriptMemory()
        self.exchange = ScriptExchange(self._ask, lambda: [memory])

    def _ask(self, key: ScriptKey) -> asyncio.Future[Fact | None]:
        self.asked.append(key)
        self.replies.append(asyncio.get_running_loop().create_future())
        return self.replies[-1]

    async def answer(self, key: ScriptKey, calls: ScriptCalls | None) -> None:
        self.replies[self.asked.index(key)].set_result(calls)
        await asyncio.sleep(0)


def test_each_script_is_asked_about_once() -> None:
    async def main() -> None:
        others, first, second = Others(), Waiter(), Waiter()
        assert others.exchange.find(first, frozenset({ONE, TWO}))
        assert others.exchange.find(second, frozenset({ONE}))
        assert sorted(others.asked) == [ONE, TWO]
        await others.answer(ONE, ScriptCalls())
        assert (first.arrivals, second.arrivals) == (0, 1)
        await others.answer(TWO, None)
        assert first.arrivals == 1
        assert others.exchange.recall(ONE) == ScriptCalls()
        assert others.exchange.recall(TWO) is None

    asyncio.run(main())


@pytest.mark.parametrize("error", [TimeoutError(), ConnectionError()])
def test_no_answer_is_taken_for_no_and_asked_for_again(error: Exception) -> None:
    async def main() -> None:
        others, client, gone = Others(), Waiter(), Waiter()
        others.exchange.find(client, frozenset({ONE}))
        others.exchange.find(gone, frozenset({ONE}))
        gone.gone = True
        others.replies[0].set_exception(error)
        await asyncio.sleep(0)
        assert (client.arrivals, gone.arrivals) == (1, 0)
        others.exchange.find(client, frozenset({ONE}))
        assert others.asked == [ONE, ONE]

    asyncio.run(main())


def test_alone_there_is_nobody_to_ask() -> None:
    assert not ScriptExchange(None, list).find(Waiter(), frozenset({ONE}))
    assert not Others().exchange.find(Waiter(), frozenset())
