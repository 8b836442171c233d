"""Commands of scripts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tests.simulation.replies import SYNTAX, Refusal
from tests.simulation.table import MOVABLE, TABLE, command
from tests.simulation.values import integer

if TYPE_CHECKING:
    from tests.simulation.connection import Connection


_CALL = re.compile(rb"redis\.call\(([^()]*)\)")
_WORD = re.compile(rb"'([^']*)'|\"([^\"]*)\"|(KEYS|ARGV)\[(\d+)\]|(-?\d+)")


@command("eval evalsha", -3, "p", MOVABLE)
def _eval(c: Connection, argv: Sequence[bytes]) -> Any:
    """Scripts that are calls, and perhaps return the last one or a word."""
    number = integer(argv[2])
    if number > len(argv) - 3:
        raise Refusal("ERR Number of keys can't be greater than number of args")
    if number < 0:
        raise Refusal("ERR Number of keys can't be negative")
    text = argv[1]
    if argv[0].upper() == b"EVALSHA":
        text = c.server.scripts.get(argv[1].lower(), b"")
        if not text:
            raise Refusal("NOSCRIPT No matching script." + (" Please use EVAL." if not c.server.valkey else ""))
    c.server.scripts[hashlib.sha1(text).hexdigest().encode()] = text
    return _run(c, text, argv[3 : 3 + number], argv[3 + number :])


def _run(c: Connection, text: bytes, keys: Sequence[bytes], arguments: Sequence[bytes]) -> Any:
    given, reply = {b"KEYS": keys, b"ARGV": arguments}, None

    def words(source: bytes) -> list[Any]:
        found = _WORD.finditer(source)
        return [m[1] or m[2] or (given[m[3]][int(m[4]) - 1] if m[3] else m[5] or b"") for m in found]

    c.server.running_script = True
    try:
        for call in _CALL.finditer(text):
            argv = words(call[1])
            row = TABLE[argv[0].upper()]
            reply = c.call_from_script(row, argv)
    except Refusal as refusal:
        script = "" if c.server.valkey else f"{hashlib.sha1(text).hexdigest()}, "
        raise Refusal(f"{refusal} script: {script}on @user_script:1.") from None
    finally:
        c.server.running_script = False
    value = re.search(rb"return\s+(?!redis)(.*)", text)
    if value is not None:
        reply = words(value[1])[0]
        return int(reply) if value[1].strip() == reply else reply
    return reply if b"return" in text else None


@command("script", -2)
def _script(c: Connection, argv: Sequence[bytes]) -> Any:
    name, scripts = argv[1].upper(), c.server.scripts
    if name == b"LOAD" and len(argv) == 3:
        digest = hashlib.sha1(argv[2]).hexdigest().encode()
        scripts[digest] = argv[2]
        return digest
    if name == b"EXISTS" and len(argv) > 2:
        return [int(word.lower() in scripts) for word in argv[2:]]
    if name == b"FLUSH":
        scripts.clear()
        return "OK"
    raise Refusal(SYNTAX)
