"""Decodes the replies that a rule needs the values of. Replies that are only forwarded are never decoded."""

from typing import Any

import hiredis


def read_reply(frame: bytes) -> Any:
    """Decode a reply frame into Python values; an error reply becomes a ``hiredis.ReplyError``."""
    reader = hiredis.Reader(replyError=hiredis.ReplyError)
    reader.feed(frame)
    return reader.gets()
