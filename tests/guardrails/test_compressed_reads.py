"""Memory and replicas answer reads of compressed values, and every client reads what it would read without the rules.

Proves: histories of one client are answered as by Redis alone, in RESP2 and RESP3, with reads that memory has answered;
what others write directly, plain or compressed, is read; audited rules, the kill switch, tenants and policies that
begin or end to compress give no value in the wrong form.
"""

from __future__ import annotations

import json
import random
import signal
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from proxy.commands.cached_reads import CACHED_READS
from proxy.compression.frames import STRING, Codec, pack
from tests.compression.histories import REFUSED, Argv, History, json_of
from tests.conftest import Fleet, seeds
from tests.engines import Engine, free_port
from tests.guardrails.test_compression import engine, reference, same
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Address, Wire, eventually
from tests.resp import pack as request

__all__ = ["engine", "reference"]

pytestmark = pytest.mark.skipif(DIRECT, reason="guardrails are Keyrail's own")

CACHED = """
keyrail: 1
defaults: {mode: enforce}
TENANTS
rules:
  docs: {compress: {keys: ["doc:1", "doc:h1"], above: 64B}, mode: MODE}
  others: {compress: {keys: ["doc:2", "doc:3", "doc:h2"], above: 64B, codec: lz4}, mode: MODE}
  memory: {local_cache: {keys: ["*"], when: always, max_age: 60s}}
"""
TIMES = 3


def policy(folder: Path, mode: str = "enforce", tenants: str = "") -> Path:
    file = folder / "cached.yaml"
    file.write_text(CACHED.replace("MODE", mode).replace("TENANTS", tenants), encoding="utf-8")
    return file


@pytest.fixture
def keyrail(fleet: Fleet, engine: Engine, tmp_path: Path) -> Keyrail:
    return fleet.keyrail(engine.name, policy=policy(tmp_path))


@pytest.fixture
def own_keyrail(engine: Engine, tmp_path: Path) -> Iterator[Keyrail]:
    """Whose policy the test changes."""
    running = Keyrail(engine.url, policy=policy(tmp_path))
    yield running
    running.close()


def hits(keyrail: Keyrail) -> float:
    return keyrail.metric("keyrail_local_cache_hits_total", mode="enforce")


def reads(argv: Argv) -> bool:
    return argv[0].decode() in CACHED_READS


def repeated(commands: Iterator[Argv]) -> Iterator[Argv]:
    """The commands that are not refused, and each read several times."""
    for argv in commands:
        if argv[0].decode() not in REFUSED and argv[0] != b"SORT":
            yield from [argv] * (TIMES if reads(argv) else 1)


def _reads(wire: Wire, key: bytes, value: bytes) -> bool:
    return wire.value("GET", key) == value


@pytest.mark.parametrize("seed", seeds(3))
def test_memory_answers_what_redis_would_answer(
    keyrail: Keyrail, engine: Engine, reference: Engine, protocol: int, seed: int
) -> None:
    r, history = random.Random(seed), History(seed)
    before = hits(keyrail)
    with keyrail.wire(protocol) as wire, reference.wire(protocol) as direct:
        eventually(lambda: wire.value("GET", "none") is None and hits(keyrail) > before)
        for argv in repeated(history.commands(400)):
            if r.random() < 0.05:  # somebody writes directly, plain or compressed
                key, value = history.string(), json_of(r, 500)
                engine.do("SET", key, pack(value, STRING, r.choice(list(Codec)), 3, r.choice((10, 10**6))))
                if not key.startswith(b"doc:"):
                    engine.do("SET", key, value)
                reference.do("SET", key, value)
                eventually(partial(_reads, wire, key, value))
            told = wire.ask(*argv)
            assert same(argv, told, direct.ask(*argv)), argv
        eventually(lambda: hits(keyrail) > before + 50)
        rules = json.loads(keyrail.http("/rules")[1])["routes"][0]["rules"]
        assert sum(rule.get("compressed", {}).get("decompressed_values", 0) for rule in rules) > 0


def test_memory_answers_pipelines_in_their_order(keyrail: Keyrail, reference: Engine, protocol: int) -> None:
    sent = [argv for argv in repeated(History(7).commands(600)) if len(argv) > 1]
    with keyrail.wire(protocol) as wire, reference.wire(protocol) as direct:
        for at in range(0, len(sent), 50):
            part = sent[at : at + 50]
            data = b"".join(request(*argv) for argv in part)
            wire.send(data)
            direct.send(data)
            for argv, told, expected in zip(part, wire.frames(len(part)), direct.frames(len(part)), strict=True):
                assert same(argv, told, expected), argv


def test_memory_holds_the_form_in_which_redis_has_the_value(
    own_keyrail: Keyrail, engine: Engine, protocol: int
) -> None:
    value = json_of(random.Random(1), 100_000)
    with own_keyrail.wire(protocol) as wire:
        wire.ask("SET", "doc:1", value)
        stored = engine.do("GET", "doc:1")
        assert isinstance(stored, bytes)

        def answered_from_memory() -> bool:
            calls = engine.calls("get")
            assert wire.value("GET", "doc:1") == value
            return engine.calls("get") == calls

        eventually(answered_from_memory)
        eventually(lambda: len(stored) < own_keyrail.metric("keyrail_local_cache_memory_bytes") < len(value))


def test_redis_answers_what_becomes_large(own_keyrail: Keyrail, engine: Engine, protocol: int) -> None:
    # An answer of Keyrail's own waits in memory for a client that does not read; one of Redis does so for a second.
    small, large = b"a" * 1_000_000, random.Random(1).randbytes(20_000) + b"a" * 3_000_000
    for key, value in ((b"doc:1", small), (b"doc:2", large)):
        engine.do("SET", key, pack(value, STRING, Codec.ZSTD, 3, 10))
    with own_keyrail.wire(protocol) as wire:

        def asked(*argv: bytes) -> int:
            calls = engine.calls(argv[0].decode().lower())
            told: Any = wire.value(*argv)
            assert (told if argv[0] == b"GET" else told[1]) in (small, large)
            return engine.calls(argv[0].decode().lower()) - calls

        eventually(lambda: asked(b"GET", b"doc:1") == 0)
        eventually(lambda: asked(b"MGET", b"plain:none", b"doc:1") == 0)
        assert all(asked(b"GET", b"doc:2") > 0 for _ in range(5))
        assert all(asked(b"MGET", b"plain:none", b"doc:2") > 0 for _ in range(5))
        # What comes behind it would be for the next turn of the event loop.
        told_of_both: Any = wire.value("MGET", "doc:1", "doc:1")
        assert told_of_both == [small, small]


def test_each_policy_reads_memory_in_its_own_form(
    own_keyrail: Keyrail, engine: Engine, protocol: int, tmp_path: Path
) -> None:
    keyrail, value = own_keyrail, json_of(random.Random(1), 5000)
    with keyrail.wire(protocol) as wire:
        wire.ask("SET", "doc:1", value)
        stored = engine.do("GET", "doc:1")
        forms = {"enforce": value, "off": stored, "audit": value}

        def read(expected: object) -> Callable[[], bool]:
            return lambda: wire.value("GET", "doc:1") == expected

        for mode in ("off", "enforce", "off", "audit", "off", "enforce"):
            policy(tmp_path, mode)
            keyrail.process.send_signal(signal.SIGHUP)
            eventually(read(forms[mode]))
            before = hits(keyrail)

            def memory_has_answered(mode: str = mode, before: float = before) -> bool:
                for _ in range(5):
                    assert wire.value("GET", "doc:1") == forms[mode]
                    assert wire.value("MGET", "doc:1", "plain:none") == [forms[mode], None]
                return hits(keyrail) >= before + 10

            eventually(memory_has_answered)


def test_the_kill_switch_shows_no_compressed_value(own_keyrail: Keyrail, protocol: int) -> None:
    value = json_of(random.Random(1), 5000)
    with own_keyrail.wire(protocol) as wire:
        wire.ask("SET", "doc:1", value)
        for switch in ("on", "off", "on"):
            for _ in range(3):
                assert wire.value("GET", "doc:1") == value
            order = json.dumps({"switch": switch, "for": "30m", "because": "a test"}).encode()
            with urllib.request.urlopen(f"http://127.0.0.1:{own_keyrail.admin_port}/policy/kill-switch", order) as told:
                assert told.status == 200
        for _ in range(3):
            assert wire.value("GET", "doc:1") == value


def test_tenants_read_their_own_values_from_memory(engine: Engine, protocol: int, tmp_path: Path) -> None:
    port = free_port()
    tenants = f'apps: {{acme: {{match: {{listener: "*:{port}"}}}}}}\ntenants: {{prefix: "{{app}}:", apps: [acme]}}'
    listen = ("--listen", f"redis://127.0.0.1:{port}")
    keyrail = Keyrail(engine.url, policy=policy(tmp_path, tenants=tenants), extra=listen)
    own, others = json_of(random.Random(1), 5000), json_of(random.Random(2), 5000)
    try:
        with keyrail.wire(protocol) as wire, Wire(Address(port=port), protocol=protocol) as tenant:
            assert wire.ask("SET", "doc:1", others) == tenant.ask("SET", "doc:1", own) == b"+OK\r\n"
            stored = engine.do("GET", "acme:doc:1")
            for _ in range(3):
                assert wire.value("GET", "doc:1") == others
                assert tenant.value("GET", "doc:1") == own
                assert tenant.value("MGET", "doc:1", "doc:none", "plain:1") == [own, None, None]
                assert wire.value("GET", "acme:doc:1") == stored, "no rule names it for this client"

            def answered_from_memory() -> bool:
                calls = engine.calls("get") + engine.calls("mget")
                assert tenant.value("GET", "doc:1") == own
                assert tenant.value("MGET", "doc:1", "plain:1") == [own, None]
                return engine.calls("get") + engine.calls("mget") == calls

            eventually(answered_from_memory)
    finally:
        keyrail.close()
