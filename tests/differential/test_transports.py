"""TLS and unix sockets behave as TCP does, on either side of Keyrail.

Proves: TLS, which cannot be half-closed, and unix sockets carry the same bytes as a plain connection: sequences with
several clients, pipelines cut at any byte, large values, and the end of a client that leaves while it blocks.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import Fleet, kind_named
from tests.differential.runner import differences, run
from tests.differential.script import scripts_of
from tests.differential.sequence import Stage, families, sequences_of
from tests.differential.sequence import differences as differences_between
from tests.differential.test_commands import Cleaner, report
from tests.engines import Engine, free_port
from tests.keyrail_process import DIRECT, Keyrail
from tests.net import certificates
from tests.resp import Address, Wire, pack

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay speaks TCP only")
TLS_ENGINE = "redis-7.0"


@dataclass(frozen=True, slots=True)
class Served:
    """An engine, one like it that is asked directly, and Keyrail's listeners in front of the first."""

    engine: Engine
    reference: Engine
    tls: Address
    unix: Address


@pytest.fixture(scope="module")
def served(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Served]]:
    """Keyrail with a TLS and a unix listener, in front of an engine that it reaches by TLS or by a unix socket."""
    folder = tmp_path_factory.mktemp("tls")
    authority = certificates.authority(folder, "authority")
    pair = certificates.issue(folder, "server", authority)
    context = ssl.create_default_context(cafile=str(authority.certificate))
    found: dict[str, Served] = {}
    keyrails: list[Keyrail] = []

    def of(upstream: str) -> Served:
        if upstream not in found:
            engine, url = _engine(fleet, upstream, authority, pair)
            listen, path = free_port(), folder / f"{upstream}.sock"
            files = f"certificate={pair.certificate}&key={pair.key}"
            listeners = ["--listen", f"rediss://127.0.0.1:{listen}?{files}", "--listen", f"unix://{path}"]
            keyrails.append(Keyrail(url, extra=listeners))
            reference = fleet.engine(engine.name, "reference")
            found[upstream] = Served(engine, reference, Address(listen, tls=context), Address(path=str(path)))
        return found[upstream]

    yield of
    for keyrail in keyrails:
        keyrail.close()


def _engine(fleet: Fleet, upstream: str, authority: certificates.Pair, pair: certificates.Pair) -> tuple[Engine, str]:
    if upstream == "unix":
        engine = fleet.engine("valkey-9.1")
        return engine, f"unix://{engine.path}"
    port = free_port()
    files = {"tls-cert-file": pair.certificate, "tls-key-file": pair.key, "tls-ca-cert-file": authority.certificate}
    options = {"tls-port": str(port), "tls-auth-clients": "no"} | {name: str(path) for name, path in files.items()}
    engine = fleet.engine(kind_named(TLS_ENGINE).name, "tls", options)
    return engine, f"rediss://127.0.0.1:{port}?ssl_ca_certs={authority.certificate}"


@pytest.fixture(params=["tls", "unix"])
def address(request: pytest.FixtureRequest, through: Served) -> Address:
    found: Address = getattr(through, request.param)
    return found


@pytest.fixture(params=["unix", "tls"], ids=["unix-upstream", "tls-upstream"])
def through(request: pytest.FixtureRequest, served: Callable[[str], Served]) -> Served:
    return served(request.param)


@pytest.mark.parametrize("family", families())
def test_sequences(through: Served, address: Address, family: str) -> None:
    found: list[str] = []
    cleaners = [Cleaner(through.reference), Cleaner(through.engine)]
    for sequence in sequences_of(family):
        if through.engine.kind.version < sequence.since:
            continue
        for cleaner in cleaners:
            cleaner.clean()
        expected = Stage(through.reference.address, through.reference).play(sequence)
        found += differences_between(sequence, expected, Stage(address, through.engine).play(sequence))
    report(found)


@pytest.mark.parametrize("way", ["pipeline", "scraps", "transaction"])
def test_commands(through: Served, address: Address, way: str) -> None:
    found: list[str] = []
    cleaners = [Cleaner(through.reference), Cleaner(through.engine)]
    for script in scripts_of("hashes") + scripts_of("streams"):
        for cleaner in cleaners:
            cleaner.clean()
        expected = run(way, script, through.reference.address, 3)
        found += differences(script, expected, run(way, script, address, 3))
    report(found)


def test_large_values(address: Address) -> None:
    value = bytes(range(256)) * 20_000
    with Wire(address) as wire:
        wire.send(pack("SET", "k", value) + pack("GET", "k") + pack("ECHO", "end"))
        assert wire.frame() == b"+OK\r\n"
        assert wire.frame() == b"$%d\r\n%s\r\n" % (len(value), value)
        assert wire.frame() == b"$3\r\nend\r\n"


def test_a_blocked_client_leaves(through: Served, address: Address) -> None:
    through.engine.do("DEL", "q")
    wire = Wire(address)
    wire.say("BLPOP", "q", "0")
    through.engine.await_info("clients", "blocked_clients", "1")
    wire.close()
    through.engine.await_info("clients", "blocked_clients", "0")
    through.engine.do("RPUSH", "q", "job")
    assert through.engine.do("LLEN", "q") == 1


def test_the_socket_is_gone_afterwards(new_engine: Callable[..., Engine], socket_folder: Path) -> None:
    path = socket_folder / "keyrail.sock"
    keyrail = Keyrail(new_engine().url, extra=["--listen", f"unix://{path}"])
    assert path.is_socket()
    assert keyrail.stop() == 0
    keyrail.close()
    assert not path.exists()
