"""Real engines: memory and replicas answer reads of tenants, who see their own values, and none that is older than what
they have been told."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import Fleet, kind_named, rest_is_long
from tests.engines import free_port
from tests.keyrail_process import DIRECT, Keyrail
from tests.replicas.lab import Lab
from tests.replicas.seen import moved
from tests.resp import Address, Wire, decode, eventually, pack

pytestmark = pytest.mark.skipif(DIRECT, reason="tenants are Keyrail's own")

POLICY = """
keyrail: 1
apps: {acme: {match: {listener: "*:ACME"}}, globex: {match: {listener: "*:GLOBEX"}}}
tenants: {prefix: "{app}:", apps: [acme, globex]}
defaults: {mode: enforce}
rules: {reads: RULE}
"""
CACHED = '{local_cache: {keys: ["k:*"], when: always, max_age: 60s}}'
SHARED = '{replica_reads: {keys: ["k:*"], max_lag: 1s}}'
NOTHING = -1
OWN = ("k:1", "k:2", "outside")


class Served:
    """A Keyrail with a listener for each tenant, and one for all others."""

    def __init__(self, upstream: str, folder: Path, rule: str, more: str = "", workers: int = 1) -> None:
        self.ports = {"acme": free_port(), "globex": free_port()}
        self.file = folder / "tenants.yaml"
        text = POLICY.replace("RULE", rule).replace("globex]", f"globex]{more}")
        for app, port in self.ports.items():
            text = text.replace(app.upper(), str(port))
        self.file.write_text(text, encoding="utf-8")
        listen = [word for port in self.ports.values() for word in ("--listen", f"redis://127.0.0.1:{port}")]
        self.keyrail = Keyrail(upstream, policy=self.file, extra=listen, workers=workers)

    def wire(self, app: str = "", protocol: int = 2) -> Wire:
        address = Address(port=self.ports[app]) if app else self.keyrail.address
        return Wire(address, protocol=protocol)


class History:
    """Clients of both tenants and of none, one command at a time: each has its own count of values of each key."""

    def __init__(self, served: Served, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clients = [
            (served.wire(app, protocol), app, before, app or before.rstrip(":"))
            for protocol in (2, 3)
            for app, before in (("acme", ""), ("globex", ""), ("", ""), ("", "acme:"))
        ]
        self.written: dict[tuple[str, str], list[str]] = {}
        self.seen: dict[tuple[int, str], int] = {}

    def step(self, *, newest: bool) -> None:
        """A write or a read; a read that sees only the ``newest`` value, or none that is older than seen before."""
        number = self.chance.randrange(len(self.clients))
        wire, _, before, space = self.clients[number]
        key = self.chance.choice(OWN)
        values = self.written.setdefault((space, key), [])
        if self.chance.random() < 0.2 or not values:
            values.append(f"{space or 'nobody'} {len(values)}")
            assert wire.ask("SET", before + key, values[-1]) == b"+OK\r\n"
            self.seen[number, key] = len(values) - 1
            return
        wire.send(pack("GET", before + key) + pack("MGET", before + key) + pack("STRLEN", before + key))
        frames = wire.frames(3)
        told = decode(frames[0])
        place = values.index(told.decode()) if isinstance(told, bytes) else NOTHING
        assert place >= (len(values) - 1 if newest else self.seen.get((number, key), NOTHING)), (space, key, told)
        assert not newest or (decode(frames[1]), decode(frames[2])) == ([told], len(values[-1]))
        self.seen[number, key] = place

    def close(self) -> None:
        for wire, *_ in self.clients:
            wire.close()


def _reads(wire: Wire, value: bytes) -> bool:
    return wire.value("GET", "k:1") == value


def test_memory_answers_with_what_the_tenant_has_now(fleet: Fleet, engine_name: str, tmp_path: Path) -> None:
    engine = fleet.engine(engine_name)
    engine.do("FLUSHALL")
    served = Served(engine.url, tmp_path, CACHED)
    try:
        history = History(served, 1)
        for _ in range(1500):
            history.step(newest=True)
        eventually(lambda: served.keyrail.metric("keyrail_local_cache_hits_total", mode="enforce") > 300)
        # What somebody else writes is told by its name in Redis.
        with served.wire("acme") as acme, served.wire("globex") as globex:
            for wire, value in ((acme, b"acme"), (globex, b"globex")):
                assert wire.ask("SET", "k:1", value) == b"+OK\r\n"
                eventually(partial(_reads, wire, value))
            engine.do("SET", "acme:k:1", "direct")
            eventually(lambda: acme.value("GET", "k:1") == b"direct")
            assert globex.value("GET", "k:1") == b"globex"
            # Who has named a key is closed when the prefix changes, also if memory alone has heard of it.
            with served.wire("acme") as reader:
                assert reader.value("GET", "k:1") == b"direct"
                served.file.write_text(served.file.read_text().replace("{app}:", "{app}/"), encoding="utf-8")
                served.keyrail.process.send_signal(signal.SIGHUP)
                assert not reader.remaining()
            with served.wire("acme") as reader:
                assert reader.value("GET", "k:1") is None
        history.close()
    finally:
        served.keyrail.close()


def test_memory_of_no_worker_has_what_flushdb_has_deleted(fleet: Fleet, engine_name: str, tmp_path: Path) -> None:
    engine = fleet.engine(engine_name)
    engine.do("FLUSHALL")
    served = Served(engine.url, tmp_path, CACHED, ", flush: walk, only_keyrail: yes", workers=2)
    keys = [f"k:{number}" for number in range(20)]
    try:
        with ExitStack() as stack:
            acme = [stack.enter_context(served.wire("acme", 2 + number % 2)) for number in range(6)]
            globex = stack.enter_context(served.wire("globex"))
            assert globex.ask("SET", "k:1", "globex") == b"+OK\r\n"
            for turn in range(20):
                assert acme[turn % 6].ask("MSET", *(word for key in keys for word in (key, turn))) == b"+OK\r\n"
                for each in acme:
                    for _ in range(3):
                        each.send(b"".join(pack("GET", key) for key in keys))
                        each.frames(len(keys))
                told = acme[turn % 5].ask("FLUSHDB")
                for each in (acme[5], *acme):
                    each.send(b"".join(pack("GET", key) for key in keys))
                    assert {decode(frame) for frame in each.frames(len(keys))} == {None}
                assert told == b"+OK\r\n"
            eventually(lambda: served.keyrail.metric("keyrail_local_cache_hits_total", mode="enforce") > 300)
            assert globex.value("GET", "k:1") == b"globex"
    finally:
        served.keyrail.close()


@pytest.fixture(scope="module", params=rest_is_long("redis-7.0", "valkey-9.1"))
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    with Lab(kind_named(str(request.param))) as started:
        yield started


def test_replicas_answer_with_nothing_older_than_the_client_knows(lab: Lab, tmp_path: Path) -> None:
    replicas = ",".join(f"127.0.0.1:{each.port}" for each in lab.replicas)
    served = Served(f"{lab.primary.url}?replicas={replicas}", tmp_path, SHARED)
    try:
        history = History(served, 2)
        for round_ in range(60):
            for stream in lab.streams:
                stream.delay(history.chance.choice((0.0, 0.0, 0.1, 0.4)))
            for _ in range(20):
                history.step(newest=False)
            if round_ % 10 == 9:
                for stream in lab.streams:
                    stream.delay(0.0)
                eventually(lab.is_linked)
                before = moved(served.keyrail)

                def reads(before: float = before) -> bool:
                    for _ in range(20):
                        history.step(newest=False)
                    return moved(served.keyrail) > before

                eventually(reads)
        history.close()
    finally:
        served.keyrail.close()
