"""Writes ``generated.json``: what running engines report about every command.

    python -m proxy.commands.generate --server redis://127.0.0.1:7000 --server unix:///tmp/old.sock

Name the engines newest first. If they disagree about a command, the first engine that knows it counts. But the arity is
the loosest of all, and a flag "blocking" or "write" from any of them counts. Containers come before their subcommands.
What an engine reports of a module's command is left out where its row has what the documentation says: modules declare
each key as written, and no arity.
The result is refused while a command lacks a fact in ``rows``, or a row is about a command that does not exist.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from redis import Redis

from proxy.commands import key_types, overlay
from proxy.commands.introspect import Description, descriptions, pairs, text
from proxy.commands.keyrail_commands import keyrail_commands
from proxy.commands.over_nodes import tipped
from proxy.commands.published import published_commands
from proxy.commands.recorded import Recorded
from proxy.commands.rows import ROWS

_TARGET = Path(__file__).with_name("generated.json")
_STICKY_FLAGS = frozenset({"blocking", "write"})


def read_engine(url: str) -> list[Recorded]:
    """The commands of the engine at ``url``; raises redis.RedisError if it does not answer."""
    with Redis.from_url(url, protocol=2) as client:
        info: dict[str, Any] = client.info("server")
        version = str(info.get("valkey_version") or info["redis_version"]).split(".")
        engine = f"{'valkey' if 'valkey_version' in info else 'redis'}-{version[0]}.{version[1]}"
        # Without this, the client parses these replies with its own callbacks; the raw replies are needed.
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
    """All commands of all sources by name, in an order that is independent of the engines."""
    commands: dict[str, Recorded] = {}
    for source in sources:
        for recorded in source:
            name = recorded.description.name
            known = commands.get(name)
            commands[name] = recorded if known is None else _joined(known, recorded)
    containers = {name.partition("|")[0] for name in commands if "|" in name}
    return {
        name: recorded._replace(description=recorded.description._replace(container=name in containers))
        for name, recorded in sorted(commands.items())
    }


def _joined(first: Recorded, other: Recorded) -> Recorded:
    ours, theirs = first.description, other.description
    arity = ours.arity
    if theirs.arity != arity:
        arity = -min(abs(arity), abs(theirs.arity))
    flags = ours.flags | (theirs.flags & _STICKY_FLAGS if not ours.container else frozenset[str]())
    description = ours._replace(arity=arity, flags=flags)
    return Recorded(description, first.since or other.since, first.engines + other.engines)


def without_modules(commands: dict[str, Recorded]) -> dict[str, Recorded]:
    """The same without commands of modules that have a ``Published`` in their rows."""
    published = {recorded.description.name for recorded in published_commands()}
    return {
        name: recorded
        for name, recorded in commands.items()
        if not ("module" in recorded.description.flags and name in published)
    }


def undecided(commands: dict[str, Recorded]) -> list[str]:
    """The problems in rows and in the engines' commands, one line each."""
    published = {recorded.description.name: recorded for recorded in published_commands()}
    known = published | commands
    own = {description.name for description in keyrail_commands()}
    problems = [f"{name}: it has a row, but no engine knows it" for name in sorted(ROWS.keys() - known.keys() - own)]
    problems += [
        f"{name}: an engine reports it: remove Published from the row" for name in published if name in commands
    ]
    for name, recorded in known.items():
        problems += [f"{name}: nothing says {what}" for what in _missing(name, recorded.description)]
    return problems


def _missing(name: str, found: Description) -> Iterator[str]:
    has_keys = any(key_spec.names_keys for key_spec in found.key_specs)
    if overlay.state_of(name, found.flags, has_keys, found.container) is None:
        yield "which state it needs of its connection"
    tips = tipped(found.request_policy, found.response_policy)
    if overlay.over_nodes(name, found.flags, tips, has_keys=bool(found.key_specs), container=found.container) is None:
        yield "which nodes of a cluster it goes to"
    if overlay.creates_of(name, found.flags) is None:
        yield "whether this write creates keys"
    if has_keys and not key_types.type_is_decided(name, found.categories):
        yield "for which types of keys it is"
    if "denyoom" in found.flags and (name not in ROWS or ROWS[name].stores is None):
        yield "which of its arguments are values to store"


def write(commands: dict[str, Recorded], target: Path) -> None:
    """Write one line for each command, so that a diff shows what a new engine changes."""
    lines = [f"{json.dumps(name)}: {json.dumps(recorded.as_record())}" for name, recorded in commands.items()]
    engines = sorted({engine for recorded in commands.values() for engine in recorded.engines})
    head = f'{{"engines": {json.dumps(engines)},\n"commands": {{\n'
    target.write_text(head + ",\n".join(lines) + "\n}}\n", "ascii")


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0 if the data was written, 1 if ``rows`` must be completed by hand first."""
    parser = argparse.ArgumentParser(prog="python -m proxy.commands.generate")
    parser.add_argument("--server", action="append", required=True, metavar="URL", help="newest engine first")
    parser.add_argument("--output", type=Path, default=_TARGET, help="the file to write")
    arguments = parser.parse_args(argv)
    commands = without_modules(merged(read_engine(url) for url in arguments.server))
    problems = undecided(commands)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 1
    write(commands, arguments.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
