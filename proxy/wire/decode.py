"""Reading replies that somebody wants the values of; what only passes through is never read."""

from typing import Any

import hiredis


def read_reply(frame: bytes) -> Any:
    """A reply frame as Python values; an error becomes hiredis.ReplyError as a value."""
    reader = hiredis.Reader(replyError=hiredis.ReplyError)
    reader.feed(frame)
    return reader.gets()
