"""A remedy for one key of a tenant, by its name in Redis: the tenant's clients are limited, or answered from memory,
under the name that they know, and clients of others with a key of the same name are not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.cli import main
from tests.conftest import Fleet
from tests.engines import Engine
from tests.keyrail_process import DIRECT
from tests.resp import Address, Wire, eventually
from tests.server.running import Running, serve
from tests.tenants.test_against_engines import POLICY, prepared

pytestmark = pytest.mark.skipif(DIRECT, reason="tenants are Keyrail's own")
KEY = "acme:cart:1"
NO_TENANTS = 'keyrail: 1\napps: {acme: {match: {user: acme}}, ops: {match: {user: "default"}}}\nrules: {}\n'
EVERYBODY = POLICY.replace("}}}\n", '}}, ops: {match: {user: "default"}}}\n', 1)
NAMES = ("cart:1", KEY)


@pytest.fixture(scope="module")
def engine(fleet: Fleet) -> Engine:
    return prepared(fleet.engine("valkey-9.1", "server"))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("remedies")


@pytest.fixture(scope="module")
def running(engine: Engine, files: Path) -> Iterator[Running]:
    (files / "tenants.yaml").write_text(EVERYBODY)
    (files / "plain.yaml").write_text(NO_TENANTS)
    (files / "keyrail.yaml").write_text(
        f"admin: 127.0.0.1:0\nworkers: 1\nwatch: off\nstate_dir: state\nroutes:\n"
        f"  - {{name: tenants, listen: '127.0.0.1:0', upstream: '{engine.url}', policy: tenants.yaml}}\n"
        f"  - {{name: plain, listen: '127.0.0.1:0', upstream: '{engine.url}', policy: plain.yaml}}\n"
    )
    with serve("--config", str(files / "keyrail.yaml"), folder=files) as running:
        yield running.ready()


def order(running: Running, **order: object) -> tuple[int, Any]:
    body = {"route": "tenants", "key": KEY, "app": "acme", "rate": "1/h", "because": "INC-1", **order}
    status, text = running.http("/remedies", body)
    return status, json.loads(text)


def undo(running: Running, number: int) -> None:
    assert running.http(f"/remedies/{number}", method="DELETE")[0] == 200


def limited(running: Running, user: str, *, route: int = 0, protocol: int = 3) -> set[str]:
    """Those of the two names that are refused to this user, after it has used each twice."""
    with running.wire(running.ports()[route]) as wire:
        login = ("AUTH", user, "secret") if user else ()
        assert not wire.ask("HELLO", protocol, *login).startswith(b"-")
        asked = [(name, wire.ask("GET", name)) for _ in range(2) for name in NAMES]
        return {name for name, reply in asked if reply.startswith(b"-DENIED keyrail/remedy-")}


@pytest.mark.parametrize("protocol", [2, 3])
def test_only_its_tenant_is_limited(running: Running, protocol: int) -> None:
    number = order(running)[1]["id"]
    assert limited(running, "acme", protocol=protocol) == {"cart:1"}
    assert limited(running, "globex", protocol=protocol) == set()
    assert limited(running, "", protocol=protocol) == set(), "another app"
    assert limited(running, "acme", route=1) == set(), "another route"
    undo(running, number)
    assert limited(running, "acme", protocol=protocol) == set()


def test_whatever_command_names_it(running: Running) -> None:
    number = order(running)[1]["id"]
    assert limited(running, "acme") == {"cart:1"}
    with running.wire() as wire:
        wire.ask("AUTH", "acme", "secret")
        refused = b"-DENIED keyrail/remedy-"
        for words in (("MGET", "a", "cart:1"), ("SET", "cart:1", "v"), ("EVAL", "return 1", "1", "cart:1")):
            assert wire.ask(*words).startswith(refused), words
        for words in (("MGET", "a", KEY), ("SET", KEY, "v"), ("PUBLISH", "cart:1", "v"), ("EVAL", "return 1", "0")):
            assert not wire.ask(*words).startswith(b"-"), words
        assert wire.ask("MULTI") == b"+OK\r\n"
        assert wire.ask("GET", "cart:1").startswith(refused)
        assert wire.ask("EXEC").startswith(b"-EXECABORT")
    undo(running, number)


def test_all_are_the_clients_that_name_this_key(running: Running) -> None:
    number = order(running, app="all")[1]["id"]
    assert limited(running, "acme") == {"cart:1"}
    assert limited(running, "") == {KEY}
    assert limited(running, "globex") == set()
    undo(running, number)
    number = order(running, app="all", key="cart:1")[1]["id"]
    assert limited(running, "") == {"cart:1"}
    assert limited(running, "acme") == set()
    undo(running, number)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"app": "globex"}, "app: expected one of all, acme, ops, got 'globex': the key is of the tenant acme"),
        ({"key": "cart:1"}, "app: expected one of all, ops, got 'acme': the key is of no tenant"),
        ({"app": "nobody"}, "app: expected one of all, acme, ops, got 'nobody'"),
        ({"local_cache": True, "rate": None, "app": "globex"}, "'globex': the key is of the tenant acme"),
    ],
)
def test_an_app_that_has_no_name_for_the_key(running: Running, wrong: dict[str, object], error: str) -> None:
    asked = {"route": "tenants", "key": KEY, "app": "acme", "rate": "1/h", "because": "INC-1", **wrong}
    status, text = running.http("/remedies", {name: each for name, each in asked.items() if each is not None})
    assert status == 400
    assert error in json.loads(text)["error"]


def test_a_reload_that_changes_the_tenants(running: Running, files: Path) -> None:
    def reload(policy: str) -> None:
        (files / "tenants.yaml").write_text(policy)
        assert running.http("/policy/reload", {})[0] == 200

    number = order(running)[1]["id"]
    assert limited(running, "acme") == {"cart:1"}
    reload(NO_TENANTS)
    assert limited(running, "acme") == {KEY}, "it names the key as Redis does"
    reload(EVERYBODY.replace('"{app}:"', '"v2:{app}:"'))
    assert limited(running, "acme") == set(), "its cart is another key now"
    reload(EVERYBODY)
    assert limited(running, "acme") == {"cart:1"}
    undo(running, number)


def test_users_of_one_app_have_keys_of_their_own(engine: Engine, tmp_path: Path) -> None:
    policy = POLICY.replace("{user: acme}", '{user: "acme*"}').replace('"{app}:"', '"{user}:"')
    (tmp_path / "tenants.yaml").write_text(policy)
    engine.do("ACL", "SETUSER", "acme2", "on", ">secret", "~*", "&*", "+@all")
    arguments = ("--upstream", engine.url, "--workers", "1", "--policy", str(tmp_path / "tenants.yaml"))
    with serve(*arguments) as running:
        running.ready()
        assert order(running, route="default", app="acme")[0] == 200
        assert limited(running, "acme") == {"cart:1"}
        assert limited(running, "acme2") == set()


def test_reads_of_it_are_answered_from_memory(
    engine: Engine, tmp_path: Path, socket_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    apps = {name: str(socket_folder / f"{name}.sock") for name in ("acme", "globex")}
    matches = ", ".join(f"{name}: {{match: {{listener: '{path}'}}}}" for name, path in apps.items())
    lines = ["keyrail: 1", f"apps: {{{matches}}}", *POLICY.splitlines()[3:]]
    (tmp_path / "tenants.yaml").write_text("\n".join(lines))
    listen = [text for path in apps.values() for text in ("--listen", f"unix://{path}")]
    for name in apps:
        engine.do("SET", f"{name}:cart:1", name)
    arguments = ("--upstream", engine.url, "--workers", "1", "--policy", str(tmp_path / "tenants.yaml"), *listen)
    with serve(*arguments, "--admin", "127.0.0.1:0") as running:
        running.ready()

        def is_from_memory(name: str) -> bool:
            before = engine.calls("get")
            with Wire(Address(path=apps[name])) as wire:
                assert all(wire.value("GET", "cart:1") == name.encode() for _ in range(4))
            return engine.calls("get") == before

        words = ("remedy", KEY, "--local-cache", "--because", "INC-1", "--admin", running.admin)
        assert main(words) == 0
        eventually(lambda: is_from_memory("acme"))
        assert not is_from_memory("globex")
        engine.do("SET", KEY, "other")
        with Wire(Address(path=apps["acme"])) as wire:
            eventually(lambda: wire.value("GET", "cart:1") == b"other")
        engine.do("SET", KEY, "acme")
        assert main(("remedy", "undo", "1", "--admin", running.admin)) == 0
        eventually(lambda: not is_from_memory("acme"))
    capsys.readouterr()
