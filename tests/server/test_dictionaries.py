"""Dictionaries come and go with a policy, while it is reloaded."""

from __future__ import annotations

import random
from pathlib import Path

from tests.compression.dictionaries import json_dictionary
from tests.compression.histories import json_of
from tests.conftest import Fleet
from tests.server.running import serve

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
