"""How commands bring keys into being: which keys, of what type, and what their replies tell of it.

A command's row says how it creates, for whoever has to act on it. A creation is *fresh* where what the command leaves
is a whole new value, without anything of an old one, its lifetime included (…STORE, MSET). Otherwise it writes into the
key that is there, and only a reply, or a look beforehand, can tell whether it was there. No reply but that of LPUSH and
RPUSH does: a list is never empty, so a length that equals what was pushed is a new list. (A string can be empty:
APPEND's reply tells nothing.)

A reply of ``:0`` says of some commands that nothing was written, and of others (SETBIT, INCRBY) nothing. A null always
says it, but for scripts.
"""

from proxy.commands.command import Command
from proxy.commands.row import Creation
from proxy.commands.rows import ROWS
from proxy.commands.spec import Spec

TYPES = ("string", "hash", "list", "set", "zset", "stream", "other")
"""As TYPE names them; what a module calls its own is ``other``."""

ELSEWHERE = {row.name: row.creates_elsewhere for row in ROWS.values() if row.creates_elsewhere}
"""Commands that create a key where, or in a way that, nothing can be done about it from their own connection."""


def creation_of(spec: Spec) -> Creation | None:
    """How the command creates keys; None for one that does not, or of which it is not known."""
    row = ROWS.get(spec.name)
    return None if row is None else row.creates


def created_keys(command: Command, creation: Creation) -> tuple[bytes, ...]:
    """The keys that a command of this creation may bring into being, each once."""
    names = [key.name for key in (*command.keys, *command.named) if key.write]
    if creation.last_key_only:
        names = names[-1:]
    return tuple(dict.fromkeys(names))
