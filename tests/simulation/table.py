"""The commands that the engine knows, as Redis describes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.simulation.replies import Refusal

if TYPE_CHECKING:
    from tests.simulation.connection import Connection

Run = Callable[["Connection", Sequence[bytes]], Any]
NONE, ONE, ALL, PAIRS = (0, 0, 0), (1, 1, 1), (1, -1, 1), (1, -1, 2)
BLOCKING = (1, -2, 1)
TWO = (1, 2, 1)
MOVABLE, COUNTED_PAIRS = (-3, 1, 1), (-2, 1, 2)
"""Behind a number of keys: EVAL, MSETEX."""


class Row(NamedTuple):
    """``flags``: w writes, r reads, s for subscribers of RESP2, m runs in MULTI at once, a before a
    login, p waits while writes are paused."""

    name: str
    run: Run
    arity: int
    flags: str
    keys: tuple[int, int, int]

    def keys_of(self, argv: Sequence[bytes]) -> Sequence[bytes]:
        """The keys of a command. Raises ValueError where their number is none."""
        first, last, step = self.keys
        if first == 0:
            return ()
        if first < 0:
            return argv[-first : step * int(argv[-first - 1]) - first : step]
        return argv[first : len(argv) + last + 1 if last < 0 else last + 1 : step]

    def title(self, argv: Sequence[bytes]) -> str:
        """Its name in errors. Raises Refusal for a wrong number of words, and a subcommand that is none."""
        name, arity, count = self.name, self.arity, len(argv)
        known = SUBCOMMANDS.get(name)
        if known is not None and count > 1:
            subcommand = argv[1].decode("utf-8", "surrogateescape")
            if subcommand.lower() not in known:
                raise Refusal(f"ERR unknown subcommand '{subcommand}'. Try {name.upper()} HELP.")
            name, arity = f"{name}|{subcommand.lower()}", known[subcommand.lower()]
        if count != arity if arity > 0 else count < -arity:
            raise Refusal(f"ERR wrong number of arguments for '{name}' command")
        return name


SUBCOMMANDS = {
    "client": {
        "id": 2,
        "getname": 2,
        "setname": 3,
        "setinfo": 4,
        "no-evict": 3,
        "no-touch": 3,
        "reply": 3,
        "tracking": -3,
        "pause": -3,
        "unpause": 2,
        "kill": -3,
        "unblock": -3,
    },
    "script": {"load": 3, "exists": -3, "flush": -2},
    "pubsub": {"numsub": -2, "channels": -2, "shardnumsub": -2, "shardchannels": -2},
    "cluster": {
        "myid": 2,
        "info": 2,
        "nodes": 2,
        "slots": 2,
        "shards": 2,
        "keyslot": 3,
        "countkeysinslot": 3,
        "getkeysinslot": 4,
    },
    "acl": {"whoami": 2},
    "config": {"get": -3, "set": -4},
}
"""The arity of each subcommand."""

TABLE: dict[bytes, Row] = {}


def command(names: str, arity: int, flags: str = "", keys: tuple[int, int, int] = NONE) -> Callable[[Run], Run]:
    """Commands that are run by the function that follows. Without any ``keys``, what reads or writes has one."""

    def add(run: Run) -> Run:
        for name in names.split():
            of_keys = ONE if keys == NONE and flags[:1] in ("r", "w") else keys
            TABLE[name.upper().encode()] = Row(name, run, arity, flags, of_keys)
        return run

    return add
