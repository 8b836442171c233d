"""Commands that Redis has renamed (`rename-command`): the start says so, and `--aliases` has them judged as themselves.

Proves: under whatever name a command of Redis is known, all that is decided about it holds for it, from its keys to the
plans of each packaged policy; Keyrail finds what is renamed although COMMAND does not tell, and that an alias is none.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD, ConnectionState
from proxy.policy.compile import PolicyCompiler
from proxy.policy.load import load_policy
from proxy.rules.context import Context
from proxy.wire.request import Request
from tests.engines import Engine
from tests.keyrail_process import packaged_policy
from tests.resp import Wire
from tests.server.running import serve

RENAMED = {
    "rename-command FLUSHALL": "ADMINFLUSHALL",
    "rename-command CONFIG": "x-config",
    "rename-command SET": "my_set",
    "rename-command KEYS": '""',
}
OTHERS = [spec for spec in STANDARD.specs[1:] if "|" not in spec.name and spec.state is not ConnectionState.KEYRAIL]
EVERY = STANDARD.with_aliases((spec.name, f"X_{spec.name}") for spec in OTHERS)


def alias_of(argv: list[bytes]) -> list[bytes]:
    return [b"x_" + argv[0].lower(), *argv[1:]]


def requests() -> list[list[bytes]]:
    found = []
    for spec in STANDARD.specs[1:]:
        if spec.state is not ConnectionState.KEYRAIL:
            name = spec.name.encode().split(b"|")
            found.append([*name, *[b"1"] * max(0, abs(spec.arity) - len(name)), b"1"])
    return found


def test_each_command_is_the_same_by_its_alias() -> None:
    request = Request()
    for argv in requests():
        own, other = Command(EVERY, argv), Command(EVERY, alias_of(argv))
        assert own.spec is other.spec, argv
        assert EVERY.keys_of(own.spec, argv) == EVERY.keys_of(other.spec, alias_of(argv))
        request.load(alias_of(argv))
        assert EVERY.lookup.find(request) == own.spec.id
    assert EVERY.specs[: len(STANDARD.specs)] == STANDARD.specs, "ids of plans and counters stay"
    assert EVERY.completed_by([]).aliases == EVERY.aliases
    assert len(EVERY.aliases) == len(OTHERS)


@pytest.mark.parametrize("name", ["default", "cache", "strict"])
def test_each_command_is_judged_the_same_by_its_alias(name: str) -> None:
    policy = load_policy(packaged_policy(f"{name}.yaml"))
    compiled = PolicyCompiler(policy, EVERY).bind(None, rehearsal=True)
    context = Context("default", "", 0, False, 0.0, repeat(0.5).__next__, "")
    for argv in requests():
        own, other = (compiled.judge(Command(EVERY, each), context) for each in (argv, alias_of(argv)))
        assert type(own.verdict) is type(other.verdict), argv


def ask(wire: Wire, line: str) -> bytes:
    return wire.ask(*line.split())


def test_what_redis_has_renamed(new_engine: Callable[..., Engine], engine_name: str) -> None:
    engine = new_engine(engine_name, RENAMED)
    with serve("--upstream", engine.url) as keyrail:
        warning = keyrail.ready().await_line("Redis has renamed .*")
        assert warning == (
            "Redis has renamed CONFIG, FLUSHALL, SET (rename-command), so no rule applies to what it calls them now: "
            "name it, as in --aliases CONFIG=NEW-NAME"
        )
        assert any(" warning keyrail: " in line and warning in line for line in keyrail.stamped)
        with keyrail.wire() as wire:
            assert ask(wire, "ADMINFLUSHALL") == b"+OK\r\n", "an unknown name passes under `default`"
    aliases = "flushall=AdminFlushAll,CONFIG=X-CONFIG,SET=MY_SET,DEL=NO-SUCH"
    with serve("--upstream", engine.url, "--policy", "cache", "--aliases", aliases) as keyrail:
        keyrail.ready().await_line("--aliases: Redis has no command NO-SUCH$")
        assert "has renamed" not in keyrail.stderr
        with keyrail.wire() as wire:
            for line in ("ADMINFLUSHALL", "adminflushall ASYNC", "FLUSHALL"):
                assert ask(wire, line).startswith(b"-DENIED keyrail/no-flush: FLUSHALL"), line
            assert ask(wire, "X-Config SET maxmemory 0").startswith(b"-DENIED keyrail/no-server-control: CONFIG SET")
            assert ask(wire, "x-config GET save").endswith(b"save\r\n$0\r\n\r\n")
            script = "return redis.call('adminflushall')"
            assert wire.ask("EVAL", script, 0).startswith(b"-DENIED keyrail/no-way-around: the script calls FLUSHALL")
            assert [ask(wire, line)[:9] for line in ("MULTI", "ADMINFLUSHALL", "EXEC")] == [
                *(b"+OK\r\n", b"-DENIED k", b"-EXECABOR")
            ]
            assert ask(wire, "my_set k v") == b"+OK\r\n"
            assert int(ask(wire, "TTL k")[1:]) > 0, "what `cache` does to SET"
