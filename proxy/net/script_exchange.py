"""What other workers have seen of scripts: asked for when a client runs one that was never seen here.

A worker knows a script before the client that sent it hears that it is loaded, so whoever asks after that is told. The
supervisor passes the question to all other workers; however many clients run the same script, it is asked once. A
question that is not answered in time is taken as answered with no.
"""

import asyncio
from collections.abc import Callable, Iterable

from proxy.rules.script_memory import ScriptKey, ScriptMemory
from proxy.rules.script_text import ScriptCalls
from proxy.session.gate import Seeker

PATIENCE_SECONDS = 3.0

Ask = Callable[[ScriptKey], None]


class ScriptExchange:
    """One route's questions; ``ask`` passes one on, and is None where there is no other worker."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, ask: Ask | None, memories: Callable[[], Iterable[ScriptMemory]]
    ) -> None:
        self._loop = loop
        self._ask = ask
        self._memories = memories
        self._waiting: dict[ScriptKey, list[_Search]] = {}

    def seek(self, seeker: Seeker, keys: frozenset[ScriptKey]) -> bool:
        """Ask about each; ``arrived`` is called when all have been answered. False where there is nobody to ask."""
        if self._ask is None or not keys:
            return False
        search = _Search(seeker, len(keys))
        for key in keys:
            searches = self._waiting.get(key)
            if searches is None:
                searches = self._waiting[key] = []
                self._loop.call_later(PATIENCE_SECONDS, self._give_up, key, searches)
                self._ask(key)
            searches.append(search)
        return True

    def found(self, key: ScriptKey, calls: ScriptCalls | None) -> None:
        """The others have been asked: what the script calls, or None if nobody has seen it."""
        if calls is not None:
            for memory in self._memories():
                memory.learn(key, calls)
        for search in self._waiting.pop(key, ()):
            search.left -= 1
            if search.left == 0 and not search.seeker.gone:
                search.seeker.arrived()

    def recall(self, key: ScriptKey) -> ScriptCalls | None:
        """What is known here."""
        return next((calls for memory in self._memories() if (calls := memory.recall(key)) is not None), None)

    def _give_up(self, key: ScriptKey, searches: "list[_Search]") -> None:
        if self._waiting.get(key) is searches:
            self.found(key, None)


class _Search:
    """A client that waits for so many answers."""

    __slots__ = ("left", "seeker")

    def __init__(self, seeker: Seeker, left: int) -> None:
        self.seeker = seeker
        self.left = left
