"""How commands create keys: which keys, of which type, and what their replies prove.

A command's row says how it creates keys. A creation is *fresh* if the command replaces any old value and its TTL
(…STORE, MSET). Otherwise the command may write into an existing key, and only the reply, or a command before it, tells
whether the key existed. Only the replies of LPUSH and RPUSH do: a list is never empty, so if the length equals the
number of pushed elements, the list is new. (A string can be empty: APPEND's reply proves nothing.)

For some commands a reply of ``:0`` means that nothing was written; for others (SETBIT, INCRBY) it means nothing. A null
always means that nothing was written, except for scripts.
"""

from proxy.commands.command import Command
from proxy.commands.row import Creation
from proxy.commands.rows import ROWS
from proxy.commands.spec import Spec
from proxy.commands.words import word_of

OTHER = "other"
TYPES = ("string", "hash", "list", "set", "zset", "stream", OTHER)
"""As TYPE names them; every type of a module is ``other``."""

ELSEWHERE = {row.name: row.creates_elsewhere for row in ROWS.values() if row.creates_elsewhere}
"""Commands that create a key where hidden commands on their connection cannot follow, and why."""

DELETES = {row.name: row.deletes for row in ROWS.values() if row.deletes is not None}
"""Commands that are there to remove keys, and how many. RENAME is one: it makes no key more, and may remove one."""

_NEEDS_KEY = {row.name: row.needs_key for row in ROWS.values() if row.needs_key is not None}


def creation_of(spec: Spec) -> Creation | None:
    """How the command creates keys; None if it creates none, or if that is unknown."""
    row = ROWS.get(spec.name)
    return None if row is None else row.creates


def created_keys(command: Command, creation: Creation) -> tuple[bytes, ...]:
    """The keys that the command may create, each once."""
    names = [key.name for key in (*command.keys, *command.named) if key.write]
    if creation.last_key_only:
        names = names[-1:]
    return tuple(dict.fromkeys(names))


def adds_keys(spec: Spec) -> bool:
    """Whether there may be more keys after the command than before. Scripts are left out: their calls tell."""
    creation = creation_of(spec)
    creates = spec.name in ELSEWHERE or (creation is not None and not creation.by_script)
    return creates and spec.name not in DELETES


def needs_key(command: Command) -> bool:
    """Whether an option makes the command write only if its key exists: ``SET … XX``, ``XADD … NOMKSTREAM``."""
    option = _NEEDS_KEY.get(command.spec.name)
    if option is None:
        return False
    for argument in command.argv[option.first :]:
        word = word_of(argument)
        if word == option.word:
            return True
        if option.beside is not None and word not in option.beside:
            return False
    return False
