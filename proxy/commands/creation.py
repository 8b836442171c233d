"""How commands create keys: which keys, of what type, and what their replies prove.

A command's row says how it creates keys. A creation is *fresh* if the command leaves a new value without anything of an
old one, its TTL included (…STORE, MSET). Otherwise it writes into an existing key, and only the reply, or a command
before it, can tell whether the key existed. No reply but that of LPUSH and
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
"""Commands that create a key in a place or a way that hidden commands on their connection cannot follow."""


def creation_of(spec: Spec) -> Creation | None:
    """How the command creates keys; None if it does not, or if that is unknown."""
    row = ROWS.get(spec.name)
    return None if row is None else row.creates


def created_keys(command: Command, creation: Creation) -> tuple[bytes, ...]:
    """The keys that a command of this creation may create, each once."""
    names = [key.name for key in (*command.keys, *command.named) if key.write]
    if creation.last_key_only:
        names = names[-1:]
    return tuple(dict.fromkeys(names))
