"""Record what real engines answer: ``python -m tests.transcripts.record`` rewrites the JSON files beside this file.

A transcript is a list of steps on one connection. Each step is a command, the action on its reply in the
upstream pipeline, and the frames that the engine sent for it. Steps of action ``push`` are what came without being
asked for, set off by a second connection; ``local`` steps are answers of Keyrail's own, for which the engine saw
nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.engines import Engine, kinds
from tests.resp import Wire, words

Step = dict[str, Any]

ABORTING_COMMAND = "GET"
"""Refused by every engine for its arity, inside MULTI too: what a refused command becomes there."""


def step(line: str, action: str = "forward", frames: int = 1, **more: Any) -> Step:
    """A command, the action on its reply, and how many frames come for it."""
    return {"send": line, "action": action, "due": frames, **more}


def local(payload: str) -> Step:
    return {"action": "local", "payload": payload}


def push(line: str, frames: int = 1) -> Step:
    """A command on the second connection, that makes the first one hear something."""
    return {"other": line, "action": "push", "due": frames}


def confirm(line: str, frames: int) -> Step:
    """A change of subscriptions; a bare one does not say how often it will be confirmed."""
    return step(line, "confirm", frames, bare=" " not in line)


def transcript(name: str, protocol: int, *steps: Step, **more: Any) -> dict[str, Any]:
    return {"name": name, "protocol": protocol, "steps": list(steps), **more}


VALUES = [
    "RPUSH list a b {c}",
    "SADD set m",
    "HSET hash f 1 g two",
    "ZADD zset 1.5 a 2 b",
    "XADD stream 1-1 f v",
]

SCRIPT = "EVAL \"return {1,{2,{},{3,'x'}},false,redis.status_reply('fine'),redis.error_reply('MY no')}\" 0"

TRACES = [
    "PING",
    "GET none",
    'SET key "a\\r\\n$1\\r\\nb"',
    "GET key",
    'SET empty ""',
    "GET empty",
    "INCR key",
    "LRANGE list 0 -1",
    "LRANGE none 0 -1",
    "HGETALL hash",
    "SMEMBERS set",
    "ZRANGE zset 0 -1 WITHSCORES",
    "ZSCORE zset a",
    "MGET key none empty",
    "XRANGE stream - +",
    "BLPOP none 0.01",
    SCRIPT,
    "LLEN list",
]

DEBUGS = ["string", "integer", "double", "null", "array", "set", "map", "bignum", "true", "false", "verbatim"]


def traces(protocol: int) -> dict[str, Any]:
    return transcript(f"every type of RESP{protocol}", protocol, *map(step, TRACES))


def actions(protocol: int) -> dict[str, Any]:
    return transcript(
        f"every action, RESP{protocol}",
        protocol,
        local("+before all\r\n"),
        step("SET key one"),
        step("GET key", "hide"),
        local("+behind a hidden one\r\n"),
        step("LRANGE list 0 -1"),
        local("$3\r\none\r\n"),
        local(":2\r\n"),
        step("LRANGE list 0 -1", "hide"),
        step("INCR key", "hide"),
        step("INCR key", "hide"),
        step("HGETALL hash", "edit"),
        step("GET none", "edit"),
        step("PING", "edit"),
        step("PING"),
        step("GET key"),
        step("LLEN list"),
        step(ABORTING_COMMAND, "replace", payload="-DENIED keyrail/rule: no\r\n"),
        step("NOSUCHCOMMAND", "peek"),
        step("LRANGE list 0 -1", "peek"),
        local("+last of all\r\n"),
    )


def members(protocol: int) -> dict[str, Any]:
    return transcript(
        f"members of EXEC, RESP{protocol}",
        protocol,
        step("MULTI"),
        step("SET key 1"),
        step("LRANGE list 0 -1"),
        step("GET none", "hide"),
        step("INCR key"),
        step("HGETALL hash"),
        step("LPUSH key x", "hide"),
        step("EXEC", "members", members={"1": "edit", "2": "hide", "3": "edit", "5": "hide"}),
        step("PING"),
        step("MULTI"),
        step("EXEC", "members", members={}),
        step("MULTI"),
        step("GET key", "hide"),
        step("EXEC", "members", members={"0": "hide"}),
        step("WATCH key"),
        push("SET key other", 0),
        step("MULTI"),
        step("GET key"),
        step("EXEC", "members", members={"0": "edit"}),
        step("MULTI"),
        step(ABORTING_COMMAND, "replace", payload="-DENIED keyrail/rule: no\r\n"),
        step("SET key 2"),
        step("EXEC", "members", members={"1": "edit"}),
        local("+done\r\n"),
        step("EXEC", "members", members={"0": "edit"}),
    )


def subscriptions(protocol: int) -> dict[str, Any]:
    steps = [
        confirm("SUBSCRIBE a b a", 3),
        push("PUBLISH a hello"),
        step("PING"),
        local(":7\r\n"),
        confirm("PSUBSCRIBE *", 1),
        push("PUBLISH b two", 2),
        confirm("UNSUBSCRIBE", 2),
        confirm("UNSUBSCRIBE nothing else", 2),
        confirm("PUNSUBSCRIBE *", 1),
        confirm("UNSUBSCRIBE", 1),
        confirm("SUBSCRIBE", 1),
        step("PING"),
        step("LRANGE list 0 -1"),
        step("LRANGE none 0 -1"),
        step("MGET key none"),
        step("MGET none"),
        step("GET none"),
        local("+end\r\n"),
        step("PING"),
    ]
    if protocol == 3:
        steps[3:3] = [step("LRANGE list 0 -1"), step("GET none", "hide")]
    else:
        steps[3:3] = [step("GET key"), push("PUBLISH a between"), step("GET key"), step("GET key", "hide")]
    return transcript(f"subscriptions, RESP{protocol}", protocol, *steps, listens=True)


def everything() -> list[dict[str, Any]]:
    return [
        *(make(protocol) for make in (traces, actions, members, subscriptions) for protocol in (2, 3)),
        transcript(
            "types that only RESP3 has",
            3,
            *(step(f"DEBUG PROTOCOL {kind}") for kind in DEBUGS),
            step("DEBUG PROTOCOL attrib"),
            step("DEBUG PROTOCOL map", "hide"),
            step("DEBUG PROTOCOL attrib", "hide"),
            step("DEBUG PROTOCOL attrib", "edit"),
            step("DEBUG PROTOCOL verbatim", "replace", payload="$-1\r\n"),
            step("PING"),
        ),
        transcript(
            "a message to oneself comes before the reply",
            3,
            confirm("SUBSCRIBE a", 1),
            step("PUBLISH a x", pushed=1),
            step("PUBLISH a y", "hide", pushed=1),
            step("PING"),
            listens=True,
        ),
        transcript(
            "invalidations",
            3,
            step("CLIENT TRACKING ON"),
            step("GET key"),
            push("SET key new"),
            step("GET key", "hide"),
            push("SET key newer"),
            step("PING"),
        ),
        transcript(
            "everything is relayed under MONITOR", 2, step("MONITOR", "relay"), push("SET key 1"), push("GET key")
        ),
        transcript(
            "the server becomes a replica",
            2,
            step("SET key 1"),
            step("REPLICAOF 127.0.0.1 1"),
            step("SET key 2", retires=True),
            step("REPLICAOF NO ONE"),
        ),
    ]


def record(engine: Engine, script: dict[str, Any]) -> dict[str, Any]:
    """Play one script against an engine, and add to each step the frames that came."""
    engine.do("FLUSHALL")
    for line in VALUES:
        engine.do(*words(line))
    with engine.wire(script["protocol"]) as wire, engine.wire() as other:
        for one in script["steps"]:
            if "send" in one:
                wire.say(*words(one["send"]))
            elif "other" in one:
                other.ask(*words(one["other"]))
            count = one.get("due", 0) + one.get("pushed", 0)
            one["frames"] = [wire.frame().decode("latin-1") for _ in range(count)]
        assert_silent(wire, script["name"])
    return script


def assert_silent(wire: Wire, name: str) -> None:
    if not wire.silent(0.1):
        raise AssertionError(f"{name}: more came than the script says: {wire.frame()!r}")


def main() -> None:
    for name, kind in kinds().items():
        engine = Engine(kind)
        try:
            recorded = [record(engine, script) for script in everything()]
        finally:
            engine.close()
        text = json.dumps({"engine": kind.name, "version": list(kind.version), "transcripts": recorded}, indent=1)
        (Path(__file__).parent / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
