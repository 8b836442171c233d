"""What a tenant asks real engines about all keys is answered about its own, within a budget."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.conftest import Fleet
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Wire, pack
from tests.tenants.test_against_engines import POLICY, login, prepared

pytestmark = pytest.mark.skipif(DIRECT, reason="tenants are Keyrail's own")

WALKS = (("DBSIZE",), ("KEYS", "*"), ("RANDOMKEY",))


@pytest.fixture
def shared(fleet: Fleet, engine_name: str) -> Engine:
    return prepared(fleet.engine(engine_name))


def serve(fleet: Fleet, engine_name: str, tmp_path: Path, more: str = "", *, pooling: bool = True) -> Keyrail:
    file = tmp_path / "tenants.yaml"
    file.write_text(POLICY.replace("globex]}", f"globex]{more}}}"), encoding="utf-8")
    return fleet.keyrail(engine_name, policy=file, pooling=pooling)


def write(wire: Wire, count: int, of: str) -> None:
    wire.send(b"".join(pack("SET", of.format(i), i) for i in range(count)))
    assert set(wire.frames(count)) == {b"+OK\r\n"}


def test_each_tenant_counts_and_finds_its_own(
    fleet: Fleet, engine_name: str, shared: Engine, tmp_path: Path, protocol: int
) -> None:
    keyrail = serve(fleet, engine_name, tmp_path)
    with shared.wire() as direct, keyrail.wire(protocol=protocol) as acme, keyrail.wire(protocol=protocol) as globex:
        login(acme, "acme")
        login(globex, "globex")
        assert [acme.ask("DBSIZE"), acme.value("KEYS", "*"), acme.value("RANDOMKEY")] == [b":0\r\n", [], None]
        write(direct, 3000, "other:acme:{}")
        write(acme, 700, "k:{}")
        write(globex, 5, "acme:{}")
        for wire, count in ((acme, 700), (globex, 5)):
            wire.send(pack("SET", "one", 1) + pack("DBSIZE") + pack("DEL", "one"))
            assert wire.frames(3) == [b"+OK\r\n", b":%d\r\n" % (count + 1), b":1\r\n"]
            found = wire.value("KEYS", "*")
            assert isinstance(found, list)
            assert len(found) == len({name for name in found if isinstance(name, bytes)}) == count
            assert {wire.value("RANDOMKEY") in found for _ in range(20)} == {True}
        assert globex.ask("KEYS", "acme:1") == b"*1\r\n$6\r\nacme:1\r\n"
        acme.ask("SELECT", 1)
        assert acme.ask("DBSIZE") == b":0\r\n"


def test_the_keys_of_others_cost_time_which_is_bounded(
    fleet: Fleet, engine_name: str, shared: Engine, tmp_path: Path, protocol: int
) -> None:
    keyrail = serve(fleet, engine_name, tmp_path, ", walk: {time: 1s, count: 1}")
    with shared.wire() as direct, keyrail.wire(protocol=protocol) as acme:
        login(acme, "acme")
        assert acme.ask("SET", "k", 1) == b"+OK\r\n"
        assert acme.ask("DBSIZE") == b":1\r\n"
        write(direct, 100_000, "other:{}")
        why = b"is not answered: Keyrail walks over the keys of a tenant, and it took longer than 1 s; use SCAN"
        assert acme.ask("DBSIZE") == b":1\r\n", "of a minute ago at most"
        assert why in acme.ask("KEYS", "*")
        acme.ask("SELECT", 1)
        acme.ask("SELECT", 0)
        acme.send(pack("RANDOMKEY") + pack("GET", "k"))
        told = acme.frames(2)
        assert (why in told[0] or told[0] == b"$1\r\nk\r\n", told[1]) == (True, b"$1\r\n1\r\n")


def test_inside_a_transaction_they_are_refused(
    fleet: Fleet, engine_name: str, shared: Engine, tmp_path: Path, protocol: int
) -> None:
    keyrail = serve(fleet, engine_name, tmp_path)
    with keyrail.wire(protocol=protocol) as acme:
        login(acme, "acme")
        for words in WALKS:
            acme.send(pack("MULTI") + pack("SET", "k", 1) + pack(*words) + pack("EXEC"))
            ok, queued, refused, aborted = acme.frames(4)
            assert (ok, queued, aborted[:10]) == (b"+OK\r\n", b"+QUEUED\r\n", b"-EXECABORT")
            assert b"DENIED keyrail: %b is not answered" % words[0].encode() in refused
        assert acme.ask("DBSIZE") == b":0\r\n"


def test_a_client_that_leaves_and_another_policy_while_it_walks(
    fleet: Fleet, engine_name: str, shared: Engine, tmp_path: Path
) -> None:
    keyrail = serve(fleet, engine_name, tmp_path, ", walk: {time: 60s, count: 1}")
    with shared.wire() as direct, keyrail.wire() as acme, keyrail.wire() as stays:
        write(direct, 20_000, "other:{}")
        login(acme, "acme")
        login(stays, "acme")
        acme.send(pack("DBSIZE"))
        acme.close()
        stays.send(pack("DBSIZE") + pack("PING"))
        (tmp_path / "tenants.yaml").write_text(POLICY.replace("globex]}", "globex], count_age: 5s}"), encoding="utf-8")
        keyrail.process.send_signal(signal.SIGHUP)
        keyrail.await_line("policies reloaded: generation")
        assert stays.frames(2) == [b":0\r\n", b"+PONG\r\n"]


@pytest.mark.parametrize("pooling", [True, False])
def test_a_client_with_the_only_connection_of_its_user_walks_on_that(
    fleet: Fleet, engine_name: str, shared: Engine, tmp_path: Path, protocol: int, pooling: bool
) -> None:
    keyrail = serve(fleet, engine_name, tmp_path, f", count_age: {protocol}s", pooling=pooling)
    with keyrail.wire(protocol=protocol) as acme:
        login(acme, "acme")
        if pooling:
            assert acme.ask("CLIENT", "TRACKING", "ON") == b"+OK\r\n"
        write(acme, 900, "k:{}")
        assert acme.ask("DBSIZE") == b":900\r\n"
        found = acme.value("KEYS", "k:*")
        assert isinstance(found, list)
        assert (len(found), acme.value("RANDOMKEY") in found) == (900, True)
        assert acme.ask("KEYS", "k:7") == b"*1\r\n$3\r\nk:7\r\n"
        acme.send(pack("SET", "k:1", 2) + pack("DBSIZE") + pack("GET", "k:1"))
        assert acme.frames(3) == [b"+OK\r\n", b":900\r\n", b"$1\r\n2\r\n"]
