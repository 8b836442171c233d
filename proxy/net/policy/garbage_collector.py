"""Keep the garbage collector away while a policy is bound, as a collection stops all threads of the process.

Binding a policy for many apps creates tens of thousands of objects in a thread. Each of them makes a collection due
sooner, and a collection that visits them all stops the event loop for 10 ms and more. They live until another policy
replaces them. No cycle refers to them then, so they are freed without the collector, which need not visit them.

The interpreter can only exempt all objects that are alive, not some. So clients and connections to Redis leave no
cycles behind either, nor do commands: ``tests/net`` holds each of them to that.
"""

import asyncio
import gc
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

_running: set[object] = set()
"""One object for each call that has not ended."""


async def uncollected(make: Callable[_P, _T], *arguments: _P.args, **options: _P.kwargs) -> _T:
    """What ``make`` returns, called in a thread. No collection runs meanwhile, and none visits the objects later that
    are alive at the end."""
    if not _running and not gc.isenabled():
        return await asyncio.to_thread(make, *arguments, **options)
    call = object()
    _running.add(call)
    gc.disable()
    try:
        return await asyncio.to_thread(make, *arguments, **options)
    finally:
        _running.remove(call)
        if not _running:
            gc.freeze()
            gc.enable()
