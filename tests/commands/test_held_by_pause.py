"""Which commands a pause of writes holds back: each command of each engine is sent while it pauses writes."""

from __future__ import annotations

import contextlib
import re
import select
from collections.abc import Callable
from typing import Any

from proxy.commands.held_by_pause import held_by_pause
from proxy.commands.table import STANDARD, Spec
from tests.engines import Engine
from tests.resp import Wire, eventually, pack

DISTURBING = {"DEBUG", "FAILOVER", "MIGRATE", "MODULE", "MONITOR", "PSYNC", "REPLICAOF", "SHUTDOWN", "SLAVEOF", "SYNC"}
"""They end the engine, the pause, or the connection's replies."""
WAITING = {"WAIT", "WAITAOF", "XREAD"}
OF_6_2 = {"SCRIPT", "XGROUP"}
"""Redis 6.2 holds all of these back, whatever they do."""

BLOCKED = re.compile(r"^id=\d+ addr=127\.0\.0\.1:(\d+) .*\bflags=\w*b", re.MULTILINE)


def sent(spec: Spec) -> bytes:
    """The command with as many arguments as it must have. Redis looks at no others before it looks for a pause."""
    words = spec.name.split("|")
    return pack(*words, *["1"] * (abs(spec.arity) - len(words)))


def are_held(direct: Wire, wires: dict[str, Wire]) -> set[str]:
    """Those that are not answered, once the engine says of just these that it has blocked them."""
    waiting, held = dict(wires), set[str]()

    def all_is_known() -> bool:
        ready, _, _ = select.select([wire.socket for wire in waiting.values()], [], [], 0.05)
        for name in [name for name, wire in waiting.items() if wire.socket in ready]:
            del waiting[name]
        blocked = {match[1] for match in BLOCKED.finditer(direct.ask("CLIENT", "LIST").decode())}
        held.clear()
        held.update(name for name, wire in wires.items() if str(wire.socket.getsockname()[1]) in blocked)
        return held == set(waiting)

    eventually(all_is_known)
    return held


def engine_commands(engine: Engine) -> set[str]:
    found: Any = engine.do("COMMAND")
    return {each[0].decode().upper() for each in found}


def test_the_engine_holds_back_the_same(new_engine: Callable[..., Engine], engine_name: str) -> None:
    engine = new_engine(engine_name, {"maxclients": "2000"})
    with contextlib.ExitStack() as stack:
        direct = stack.enter_context(engine.wire())
        known = engine_commands(engine)
        specs = [
            spec
            for spec in STANDARD.specs[1:]
            if (first := spec.name.partition("|")[0]) in known - DISTURBING - WAITING
            and not spec.container
            and not (first == "CLIENT" or (first in OF_6_2 and engine_name == "redis-6.2"))
            and first != "CLUSTER"
        ]
        wires = {spec.name: stack.enter_context(engine.wire()) for spec in specs}
        assert direct.ask("CLIENT", "PAUSE", "600000", "WRITE") == b"+OK\r\n"
        for spec in specs:
            wires[spec.name].send(sent(spec))
        assert len(specs) > 200
        held = are_held(direct, wires)
        assert direct.ask("CLIENT", "UNPAUSE") == b"+OK\r\n"
    assert {spec.name for spec in specs if held_by_pause(spec)} == held
