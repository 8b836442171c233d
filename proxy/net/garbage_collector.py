"""Keep the garbage collector away while a policy is bound, as a collection stops all threads of the process.

Binding a policy for many apps creates tens of thousands of objects in a thread. Each of them makes a collection due
sooner, and a collection that visits them all stops the event loop for 10 ms and more. These objects live until another
policy replaces them, and no cycle refers to them then, so they need no collector: it never visits them.
"""

import contextlib
import gc
from collections.abc import Iterator

_pauses: set[object] = set()
"""The blocks of ``paused`` that are entered; each belongs to a task of the event loop."""


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Collect nothing in this block; the objects that are alive at its end are never visited. For the event loop."""
    if not _pauses and not gc.isenabled():
        yield
        return
    block = object()
    _pauses.add(block)
    gc.disable()
    try:
        yield
    finally:
        _pauses.remove(block)
        if not _pauses:
            gc.freeze()
            gc.enable()
