"""Commands of Pub/Sub."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tests.simulation.replies import SILENCE, Push, Refusal
from tests.simulation.table import command

if TYPE_CHECKING:
    from tests.simulation.connection import Connection


@command("subscribe psubscribe", -2, "s")
def _subscribe(c: Connection, argv: Sequence[bytes]) -> Any:
    return _follow(c, argv[0].lower(), argv[1:])


@command("ssubscribe", -2, "s", (1, -1, 1))
def _ssubscribe(c: Connection, argv: Sequence[bytes]) -> Any:
    if c.queue is not None:
        raise Refusal("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client")
    return _follow(c, argv[0].lower(), argv[1:])


@command("sunsubscribe", -1, "s", (1, -1, 1))
@command("unsubscribe punsubscribe", -1, "s")
def _unsubscribe(c: Connection, argv: Sequence[bytes]) -> Any:
    return _follow(c, argv[0].lower(), argv[1:] or list(c.subscriptions[_kind(argv[0])]) or [None])


def _kind(verb: bytes) -> str:
    return verb[:1].decode().lower() if verb[:2].lower() in (b"ps", b"pu", b"ss") or verb[:4].lower() == b"suns" else ""


def _follow(c: Connection, verb: bytes, names: Sequence[bytes | None]) -> Any:
    kind = _kind(verb)
    mine = c.subscriptions[kind]
    for name in names:
        if name is not None and b"unsub" in verb:
            mine.pop(name, None)
        elif name is not None:
            mine[name] = None
        count = len(mine) if kind == "s" else len(c.subscriptions[""]) + len(c.subscriptions["p"])
        c.say(Push([verb, name, count]))
    return SILENCE


@command("publish", 3)
def _publish(c: Connection, argv: Sequence[bytes]) -> Any:
    c.server.tell_replicas(argv[1], argv[2])
    if c.server.node is not None:
        c.server.node.publish(argv[1], argv[2])
    return c.server.publish(argv[1], argv[2])


@command("spublish", 3, "", (1, 1, 1))
def _spublish(c: Connection, argv: Sequence[bytes]) -> Any:
    return c.server.publish(argv[1], argv[2], "s")


@command("pubsub", -2)
def _pubsub(c: Connection, argv: Sequence[bytes]) -> Any:
    kind = "s" if argv[1].upper().startswith(b"SHARD") else ""
    everywhere = [each.subscriptions[kind] for each in c.server.connections]
    if argv[1].upper().endswith(b"NUMSUB"):
        return [part for name in argv[2:] for part in (name, sum(name in each for each in everywhere))]
    pattern = (argv[2] if len(argv) > 2 else b"*").decode("latin-1")
    found = dict.fromkeys(name for each in everywhere for name in each)
    return [name for name in found if fnmatch.fnmatchcase(name.decode("latin-1"), pattern)]
