"""The matrix's two sides: the cases of each guardrail, and the forms in which a client sends them.

Every case has its own two apps, in which only its rule is on: enforced in one, audited in the other. The client name
tells the app.
"""

from __future__ import annotations

from collections.abc import Callable

import yaml

from tests.resp import Wire, pack
from tests.rules.cases import Case, all_cases

MODES = ("enforce", "audit")


SCHEMA = {
    "cart": {
        "key": "cart:{user:int}",
        "type": "hash",
        "ttl": {"default": "2h"},
        "size": {"members": 3, "members_per_write": 2, "unknown": "refuse"},
    },
    "card": {"key": "card:{id:int}", "type": "hash", "ttl": "none", "fields": {"name": "string", "age": "int"}},
    "page": {"key": "page:{path...}", "type": "string", "ttl": {"default": "5m"}, "size": "4B"},
}
CASES = list(all_cases())


def policy_text(group: str) -> str:
    """One policy with the rule of every case of a group, each on for its own two apps only."""
    apps: dict[str, object] = {}
    rules: dict[str, object] = {}
    rollout: dict[str, dict[str, str]] = {}
    for case in CASES:
        if case.group != group:
            continue
        rules[case.name] = {**case.rule, "because": "the matrix says so"}
        rollout[case.name] = {"default": "off"}
        for mode in MODES:
            app = app_of(case, mode)
            apps[app] = {"match": {"client_name": app}}
            rollout[case.name][app] = mode
    document = {"keyrail": "1", "apps": apps, "rules": rules, "rollout": rollout}
    if any("schema" in case.rule for case in CASES if case.group == group):
        document["schema"] = SCHEMA
    return yaml.safe_dump(document, sort_keys=False)


def app_of(case: Case, mode: str) -> str:
    """The app, and the client name, under which the case's rule has that mode."""
    return f"{case.name}-{mode}"


def _ask(wire: Wire, data: bytes) -> list[bytes]:
    wire.send(data)
    return [wire.frame()]


def _trickled(wire: Wire, data: bytes) -> list[bytes]:
    for index in range(len(data)):
        wire.send(data[index : index + 1])
    return [wire.frame()]


def _pipelined(wire: Wire, data: bytes) -> list[bytes]:
    wire.send(pack("ECHO", "before") * 3 + data + pack("ECHO", "behind") * 3)
    return wire.frames(7)


def _transaction(wire: Wire, data: bytes) -> list[bytes]:
    wire.send(pack("MULTI") + pack("ECHO", "a") + data + pack("ECHO", "b") + pack("EXEC"))
    return wire.frames(5)


def _transaction_in_steps(wire: Wire, data: bytes) -> list[bytes]:
    return [answer for step in (pack("MULTI"), data, pack("EXEC")) for answer in _ask(wire, step)]


def _watching(wire: Wire, data: bytes) -> list[bytes]:
    return [answer for step in (pack("WATCH", "w:w"), data, pack("UNWATCH")) for answer in _ask(wire, step)]


def _unanswered(wire: Wire, data: bytes) -> list[bytes]:
    wire.send(pack("CLIENT", "REPLY", "OFF") + data + pack("CLIENT", "REPLY", "ON"))
    return [wire.frame()]


def _skipped(wire: Wire, data: bytes) -> list[bytes]:
    wire.send(pack("CLIENT", "REPLY", "SKIP") + data + pack("ECHO", "next"))
    return [wire.frame()]


def _tracking(wire: Wire, data: bytes) -> list[bytes]:
    replies = []
    for step in (pack("CLIENT", "TRACKING", "ON", "NOLOOP"), data, pack("CLIENT", "TRACKING", "OFF")):
        wire.send(step)
        while (frame := wire.frame()).startswith(b">"):
            pass  # what is invalidated is told before the reply to what invalidates it
        replies.append(frame)
    return replies


def _mixed_case(words: list[str]) -> list[str]:
    return [words[0].swapcase().title(), *words[1:]]


FORMS: dict[str, tuple[Callable[[list[str]], bytes], Callable[[Wire, bytes], list[bytes]]]] = {
    "plain": (lambda words: pack(*words), _ask),
    "lower case": (lambda words: pack(words[0].lower(), *words[1:]), _ask),
    "mixed case": (lambda words: pack(*_mixed_case(words)), _ask),
    "inline": (lambda words: " ".join(words).encode() + b"\r\n", _ask),
    "quoted inline": (lambda words: " ".join(f'"{word}"' for word in words).encode() + b"\n", _ask),
    "byte by byte": (lambda words: pack(*words), _trickled),
    "in a pipeline": (lambda words: pack(*words), _pipelined),
    "transaction": (lambda words: pack(*words), _transaction),
    "transaction in steps": (lambda words: pack(*words), _transaction_in_steps),
    "after a watch": (lambda words: pack(*words), _watching),
    "without replies": (lambda words: pack(*words), _unanswered),
    "reply skipped": (lambda words: pack(*words), _skipped),
    "tracking": (lambda words: pack(*words), _tracking),
}
"""How the words become bytes, and how the bytes are sent and the replies read; what is read is the whole of it."""
