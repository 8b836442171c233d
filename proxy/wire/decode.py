"""Decodes replies whose values a rule needs. Replies that only pass through are never decoded."""

from typing import Any

import hiredis


def read_reply(frame: bytes) -> Any:
    """Decode a reply frame into Python values; an error reply becomes a ``hiredis.ReplyError``."""
    reader = hiredis.Reader(replyError=hiredis.ReplyError)
    reader.feed(frame)
    return reader.gets()
