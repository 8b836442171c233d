"""What many connections need to know at one moment, asked by one of them.

When a node is promoted, a thousand clients open a connection to it at once. Each needs to know the node's commands,
what its user may run there, and whether its scripts are loaded.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any


class AskedOnce:
    """Questions under way, each by its subject."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Future[bool]] = {}

    async def ask(self, subject: Hashable, question: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Ask, unless somebody asks about this subject already: then wait for that answer.

        If whoever asks fails, because its connection is lost or it is cancelled, the next one that waits asks.
        Raises what the caller's own question raises.
        """
        while (asking := self._under_way.get(subject)) is not None:
            if await asyncio.shield(asking):
                return
        asking = self._under_way[subject] = asyncio.get_running_loop().create_future()
        answered = False
        try:
            await question()
            answered = True
        finally:
            del self._under_way[subject]
            asking.set_result(answered)
