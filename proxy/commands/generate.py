"""Writes ``generated.json``: what live engines and ``listed`` say about every command.

    python -m proxy.commands.generate --server redis://127.0.0.1:7000 --server unix:///tmp/old.sock

Name the engines newest first: where they disagree about a command, the first that knows it is followed,
except that arity is the loosest of all, and that a flag "blocking" or "write" from any of them holds.
Containers come before their subcommands. The result is refused while the overlay leaves a command undecided.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from redis import Redis

from proxy.commands.introspect import descriptions, pairs, text
from proxy.commands.listed import listed
from proxy.commands.overlay import creates_of, decided_names, state_of
from proxy.commands.recorded import Recorded

_TARGET = Path(__file__).with_name("generated.json")
_STICKY_FLAGS = frozenset({"blocking", "write"})


def read_engine(url: str) -> list[Recorded]:
    """The commands of the engine at ``url``; raises redis.RedisError where it can't be asked."""
    with Redis.from_url(url, protocol=2) as client:
        info: dict[str, Any] = client.info("server")
        version = str(info.get("valkey_version") or info["redis_version"]).split(".")
        engine = f"{'valkey' if 'valkey_version' in info else 'redis'}-{version[0]}.{version[1]}"
        # The client would parse these replies by its own callbacks: what is wanted is what the engine says.
        client.response_callbacks.clear()
        found = list(descriptions(client.execute_command("COMMAND")))
        since = _since(client.execute_command("COMMAND", "DOCS")) if int(version[0]) >= 7 else {}
    return [Recorded(description, since.get(description.name, ""), (engine,)) for description in found]


def _since(reply: object, parent: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in pairs(reply).items():
        full = name.upper() if "|" in name or not parent else f"{parent}|{name.upper()}"
        fields = pairs(value)
        found[full] = text(fields.get("since"))
        found.update(_since(fields.get("subcommands"), full))
    return found


def merged(sources: Iterable[Sequence[Recorded]]) -> dict[str, Recorded]:
    """All commands of all sources by name, in an order that does not depend on the engines'."""
    commands: dict[str, Recorded] = {}
    for source in sources:
        for recorded in source:
            name = recorded.description.name
            known = commands.get(name)
            commands[name] = recorded if known is None else _joined(known, recorded)
    containers = {name.partition("|")[0] for name in commands if "|" in name}
    return {
        name: replace(recorded, description=replace(recorded.description, container=name in containers))
        for name, recorded in sorted(commands.items())
    }


def _joined(first: Recorded, other: Recorded) -> Recorded:
    ours, theirs = first.description, other.description
    arity = ours.arity
    if theirs.arity != arity:
        arity = -min(abs(arity), abs(theirs.arity))
    flags = ours.flags | (theirs.flags & _STICKY_FLAGS if not ours.container else frozenset[str]())
    description = replace(ours, arity=arity, flags=flags)
    return Recorded(description, first.since or other.since, first.engines + other.engines)


def undecided(commands: dict[str, Recorded]) -> list[str]:
    """What keeps the overlay and the commands from agreeing, one line each."""
    stale = sorted(decided_names() - commands.keys())
    problems = [f"{name}: named by the overlay, known to no engine" for name in stale]
    for name, recorded in commands.items():
        found = recorded.description
        has_keys = any(key_spec.names_keys for key_spec in found.key_specs)
        if state_of(name, found.flags, has_keys, found.container) is None:
            problems.append(f"{name}: nothing says what it needs of its connection")
        if creates_of(name, found.flags) is None:
            problems.append(f"{name}: nothing says whether this write creates keys")
    return problems


def write(commands: dict[str, Recorded], target: Path) -> None:
    """One line for each command, so that a new engine's changes can be read in a diff."""
    lines = [f"{json.dumps(name)}: {json.dumps(recorded.as_record())}" for name, recorded in commands.items()]
    engines = sorted({engine for recorded in commands.values() for engine in recorded.engines})
    head = f'{{"engines": {json.dumps(engines)},\n"commands": {{\n'
    target.write_text(head + ",\n".join(lines) + "\n}}\n", "ascii")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0 when the data was written, 1 when the overlay has to decide something first."""
    parser = argparse.ArgumentParser(prog="python -m proxy.commands.generate")
    parser.add_argument("--server", action="append", required=True, metavar="URL", help="newest engine first")
    parser.add_argument("--output", type=Path, default=_TARGET, help="the file to write")
    arguments = parser.parse_args(argv)
    sources = [read_engine(url) for url in arguments.server]
    sources.append([Recorded(line.description, "", (line.engine,)) for line in listed()])
    commands = merged(sources)
    problems = undecided(commands)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 1
    write(commands, arguments.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
