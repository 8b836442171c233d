"""Dictionaries come and go with a policy, while it is reloaded."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from proxy.cli import main
from proxy.compression.frames import FIELD, STRING, dictionary_of
from tests.compression.dictionaries import json_dictionary
from tests.compression.histories import json_of
from tests.conftest import Fleet
from tests.engines import Engine
from tests.resp import Wire
from tests.server.running import Running, serve

POLICY = "keyrail: 1\nrules: {docs: {compress: {keys: 'dictionary:*', above: 64B, MORE}, mode: enforce}}\n"


def test_a_reload_brings_dictionaries_and_says_which_are_gone(fleet: Fleet, tmp_path: Path) -> None:
    value, dictionary = json_of(random.Random(1), 600), json_dictionary()
    engine, policy, file = fleet.engine("valkey-9.1", "server"), tmp_path / "policy.yaml", tmp_path / "doc.zdict"
    file.write_bytes(dictionary.content)
    policy.write_text(POLICY.replace("MORE", "codec: zstd"))
    steps = (("also_read: doc.zdict", 0), ("dictionary: doc.zdict", 2), ("also_read: doc.zdict", 0))
    arguments = ("--upstream", engine.url, "--policy", str(policy), "--watch", "off", "--workers", "2")
    with serve(*arguments) as running, running.ready().wire() as wire:
        for more, version in steps:
            policy.write_text(POLICY.replace("MORE", more))
            assert running.http("/policy/reload", {})[0] == 200
            assert wire.ask("SET", f"dictionary:{version}", value) == b"+OK\r\n"
            stored = engine.do("GET", f"dictionary:{version}")
            assert isinstance(stored, bytes)
            assert stored[3] == version
            assert wire.value("GET", f"dictionary:{version}") == value
        assert wire.value("GET", "dictionary:2") == value
        file.write_bytes(b"text")
        assert running.http("/policy/reload", {})[0] != 200
        assert wire.value("GET", "dictionary:2") == value
        policy.write_text(POLICY.replace("MORE", "codec: zstd"))
        assert running.http("/policy/reload", {})[0] == 200
        gone = f"rule docs has the dictionary {dictionary.name.hex()} no more"
        running.await_line(f"^keyrail: {gone}: values that are compressed with it cannot be read$")
        assert wire.ask("GET", "dictionary:2").startswith(b"-ERR keyrail: a value in this reply")


WITH_TENANTS = """keyrail: 1
apps: {acme: {match: {user: acme}}}
tenants: {prefix: "{app}:", apps: [acme]}
rules: {docs: {compress: {keys: 'dictionary:*', above: 64B, MORE}, mode: enforce}}
"""
FIRST, SECOND = json_dictionary(1), json_dictionary(2)


@dataclass
class Client:
    """A client that knows what it has written; its keys have this prefix."""

    wire: Wire
    engine: Engine
    prefix: str
    written: dict[str, bytes] = field(default_factory=dict)

    def write(self) -> list[bytes]:
        """One string and one field more; the names of their dictionaries, as they are stored."""
        name = f"dictionary:{len(self.written)}"
        value = self.written[name] = json_of(random.Random(name + self.prefix), 500)
        assert self.wire.ask("SET", name, value) == b"+OK\r\n"
        assert self.wire.ask("HSET", "dictionary:h", name, value) == b":1\r\n"
        return self.stored([name])

    def stored(self, names: list[str]) -> list[bytes]:
        found = []
        for name in names:
            string = self.engine.do("GET", self.prefix + name)
            value = self.engine.do("HGET", self.prefix + "dictionary:h", name)
            assert isinstance(string, bytes)
            assert isinstance(value, bytes)
            found += [dictionary_of(string, STRING), dictionary_of(value, FIELD)]
        return found

    def read(self) -> None:
        """All that it has written is what it reads."""
        names = [*self.written]
        assert self.wire.value("MGET", *names) == [*self.written.values()]
        assert self.wire.value("HMGET", "dictionary:h", *names) == [*self.written.values()]
        assert self.wire.value("STRLEN", names[0]) == len(self.written[names[0]])


@dataclass
class Serving:
    """A running Keyrail, a client of no tenant, and one of a tenant, which logs in as a user of its own."""

    running: Running
    engine: Engine
    policy: Path
    clients: list[Client]

    def reload(self, more: str, mode: str = "enforce") -> None:
        self.policy.write_text(WITH_TENANTS.replace("MORE", more).replace("enforce", mode))
        assert self.running.http("/policy/reload", {})[0] == 200

    def write(self) -> set[bytes]:
        """Clients write; the names of the dictionaries of what is stored. They read all that they have written."""
        found = {name for client in self.clients for name in client.write()}
        for client in self.clients:
            client.read()
        return found


@pytest.fixture
def serving(fleet: Fleet, tmp_path: Path) -> Iterator[Serving]:
    engine, policy = fleet.engine("valkey-9.1", "server"), tmp_path / "policy.yaml"
    engine.do("FLUSHALL")
    engine.do("ACL", "SETUSER", "acme", "on", ">secret", "~acme:*", "&*", "+@all")
    (tmp_path / "first.zdict").write_bytes(FIRST.content)
    (tmp_path / "second.zdict").write_bytes(SECOND.content)
    policy.write_text(WITH_TENANTS.replace("MORE", "dictionary: first.zdict"))
    arguments = ("--upstream", engine.url, "--policy", str(policy), "--watch", "off", "--workers", "2")
    try:
        with serve(*arguments) as running, running.ready().wire() as wire, running.ready().wire() as tenant:
            assert tenant.ask("AUTH", "acme", "secret") == b"+OK\r\n"
            clients = [Client(wire, engine, ""), Client(tenant, engine, "acme:")]
            yield Serving(running, engine, policy, clients)
    finally:
        engine.do("ACL", "DELUSER", "acme")


def test_a_dictionary_is_replaced_and_left_behind_as_the_documentation_says(serving: Serving) -> None:
    engine, policy = serving.engine, str(serving.policy)
    assert serving.write() == {FIRST.name}
    serving.reload("dictionary: first.zdict, also_read: second.zdict")
    with serving.running.ready().wire() as between:
        value = json_of(random.Random(7), 700)
        for argv in (["MULTI"], ["SET", "dictionary:t", value], ["GET", "dictionary:t"], ["GET", "dictionary:0"]):
            between.ask(*argv)
        assert serving.write() == {FIRST.name}
        serving.reload("dictionary: second.zdict, also_read: first.zdict")
        assert between.value("EXEC") == [b"OK", value, serving.clients[0].written["dictionary:0"]]
        assert between.value("GET", "dictionary:t") == value
    assert serving.write() == {SECOND.name}
    words = ["transform", "--upstream", engine.url, "--policy", policy, "--share", "100%", "--yes"]
    assert main(words) == 0
    for client in serving.clients:
        assert set(client.stored([*client.written])) == {SECOND.name}
    serving.reload("dictionary: second.zdict")
    gone = f"rule docs has the dictionary {FIRST.name.hex()} no more"
    serving.running.await_line(f"^keyrail: {gone}: values that are compressed with it cannot be read$")
    assert serving.write() == {SECOND.name}


def test_without_compressing_what_has_a_dictionary_is_read(serving: Serving) -> None:
    assert serving.write() == {FIRST.name}
    assert serving.running.http("/policy/kill-switch", {"switch": "on"})[0] == 200
    assert serving.write() == {b""}
    assert serving.running.http("/policy/kill-switch", {"switch": "off"})[0] == 200
    assert serving.write() == {FIRST.name}
    serving.reload("dictionary: first.zdict", "audit")
    assert serving.write() == {b""}
    serving.reload("dictionary: second.zdict, also_read: first.zdict", "audit")
    assert serving.write() == {b""}
    serving.reload("also_read: first.zdict")
    assert serving.write() == {b""}
    serving.reload("dictionary: first.zdict")
    assert serving.write() == {FIRST.name}


RULES = "keyrail: 1\ndefaults: {mode: enforce}\nrules:\n"
BEFORE = {"docs": ("doc:*", "first")}
AFTER: list[tuple[dict[str, tuple[str, str]], bool]] = [
    ({"docs": ("doc:*", "second"), "others": ("other:*", "first")}, True),
    ({"docs": ("doc:*", "second"), "others": ("other:*", "second")}, True),
    ({"docs": ("doc:1*", "first"), "others": ("doc:2*", "first")}, True),
    ({"others": ("other:*", "first")}, True),
    ({"renamed": ("d*", "first")}, False),
    ({"docs": ("doc:*", "first"), "others": ("other:*", "second")}, False),
]


def test_a_dictionary_that_only_other_keys_have_still_is_gone(fleet: Fleet, tmp_path: Path) -> None:
    engine, policy = fleet.engine("valkey-9.1", "server"), tmp_path / "policy.yaml"
    (tmp_path / "first.zdict").write_bytes(FIRST.content)
    (tmp_path / "second.zdict").write_bytes(SECOND.content)

    def write(rules: dict[str, tuple[str, str]]) -> None:
        each = "  {}: {{compress: {{keys: '{}', dictionary: {}.zdict}}}}\n"
        policy.write_text(RULES + "".join(each.format(name, *its) for name, its in rules.items()))

    write(BEFORE)
    with serve("--upstream", engine.url, "--policy", str(policy), "--watch", "off") as running:
        running.ready()
        for generation, (after, warns) in enumerate(AFTER, 1):
            write(after)
            assert running.http("/policy/reload", {})[0] == 200
            running.await_line(f"policies reloaded: generation {2 * generation}$")
            lines = list(running.stamped)
            begin = max(n for n, line in enumerate(lines) if f"generation {2 * generation - 1}" in line or n == 0)
            gone = [
                line for line in lines[begin:] if f"rule docs has the dictionary {FIRST.name.hex()} no more" in line
            ]
            assert bool(gone) == warns, after
            write(BEFORE)
            assert running.http("/policy/reload", {})[0] == 200
            running.await_line(f"policies reloaded: generation {2 * generation + 1}$")
