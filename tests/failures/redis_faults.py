"""Faults of one Redis, and of the network before it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from tests.failures.fault import AnyFault, Fault, OneRedis, as_before, one_redis, staged
from tests.resp import eventually, pack

LOOP = "while true do end"
SLOW_LOADING = {
    "key-load-delay": "1000",  # microseconds: the keys take more than a minute, unless that is changed
    "loading-process-events-interval-bytes": "1024",  # it answers after so many bytes, which are a few keys
    "rdbcompression": "no",
}


def begin_replica(stage: OneRedis) -> None:
    primary = stage.new_engine({"repl-diskless-sync-delay": "0"})
    stage.engine.do("REPLICAOF", "127.0.0.1", primary.port)
    stage.engine.await_info("replication", "master_link_status", "up")


def begin_script(stage: OneRedis) -> None:
    stage.engine.do("CONFIG", "SET", "busy-reply-threshold", "50")
    stage.stack.enter_context(stage.engine.wire()).send(pack("EVAL", LOOP, "0"))


def end_script(stage: OneRedis) -> None:
    with stage.engine.wire() as direct:
        eventually(lambda: direct.ask("SCRIPT", "KILL") == b"+OK\r\n")


def slow_to_load(stack: ExitStack, policy: str, _folder: Path) -> OneRedis:
    return OneRedis(stack, policy, options=SLOW_LOADING)


def begin_loading(stage: OneRedis) -> None:
    direct = stage.stack.enter_context(stage.engine.wire())
    assert direct.ask("DEBUG", "POPULATE", 60_000, "key", 100) == b"+OK\r\n"
    direct.say("DEBUG", "RELOAD")


def end_loading(stage: OneRedis) -> None:
    stage.engine.do("CONFIG", "SET", "key-load-delay", 0)


class Full(OneRedis):
    """Redis takes no more clients."""

    def __init__(self, stack: ExitStack, policy: str, _folder: Path) -> None:
        super().__init__(stack, policy)
        self._operator = stack.enter_context(self.engine.wire())

    def fill(self) -> None:
        assert self._operator.ask("CONFIG", "SET", "maxclients", "1") == b"+OK\r\n"

    def free(self) -> None:
        assert self._operator.ask("CONFIG", "SET", "maxclients", "1000") == b"+OK\r\n"
        eventually(lambda: self.gets("SUBSCRIBE", "user:news") == "a reply")

    def refuses(self) -> bool:
        return self.gets("SUBSCRIBE", "user:news") == "ERR" and self.said("refuses connections: ERR max number of")


REDIS_FAULTS: tuple[AnyFault, ...] = (
    Fault(
        "Redis dies",
        "`/readyz`: 503; log",
        2,
        "closed; closed",
        "DENIED; DENIED",
        one_redis,
        lambda stage: stage.engine.kill(),
        lambda stage: stage.engine.start(),
        lambda stage: stage.readyz("onnection"),
    ),
    Fault(
        "Redis is frozen",
        "`/readyz`: 503; log",
        7,
        "waits; waits",
        "DENIED; DENIED",
        one_redis,
        lambda stage: stage.engine.freeze(),
        lambda stage: stage.engine.thaw(),
        lambda stage: stage.readyz("Redis has not answered since"),
    ),
    Fault(
        "the network swallows the open connections",
        "log",
        7,
        "a reply; a reply",
        "a reply; a reply",
        one_redis,
        lambda stage: stage.network.swallow(),
        as_before,
        lambda stage: stage.said("connections without a reply"),
    ),
    Fault(
        "Redis runs an endless script",
        "the replies",
        0,
        "BUSY; BUSY",
        "DENIED; DENIED",
        one_redis,
        begin_script,
        end_script,
    ),
    Fault(
        "Redis loads its data",
        "the replies",
        0,
        "LOADING; LOADING",
        "LOADING; LOADING",
        staged(slow_to_load),
        begin_loading,
        end_loading,
    ),
    Fault(
        "the memory of Redis is full (`maxmemory`)",
        "the replies",
        0,
        "a reply; OOM",
        "a reply; OOM",
        one_redis,
        lambda stage: stage.engine.do("CONFIG", "SET", "maxmemory", "1"),
        lambda stage: stage.engine.do("CONFIG", "SET", "maxmemory", "0"),
    ),
    Fault(
        "Redis takes no more clients (`maxclients`), and one subscribes",
        "log; the reply (`ERR`)",
        2,
        "a reply; a reply",
        "a reply; a reply",
        staged(Full),
        Full.fill,
        Full.free,
        Full.refuses,
    ),
    Fault(
        "the server becomes a replica",
        "`/readyz`: 200 with a line; log",
        6,
        "a reply; READONLY",
        "a reply; READONLY",
        one_redis,
        begin_replica,
        lambda stage: stage.engine.do("REPLICAOF", "NO", "ONE"),
        lambda stage: stage.readyz("it is a replica", 200),
    ),
    Fault(
        "writes are paused at Redis (`CLIENT PAUSE … WRITE`)",
        "the replies",
        0,
        "a reply; waits",
        "a reply; waits",
        one_redis,
        lambda stage: stage.engine.do("CLIENT", "PAUSE", "600000", "WRITE"),
        lambda stage: stage.engine.do("CLIENT", "UNPAUSE"),
    ),
)
