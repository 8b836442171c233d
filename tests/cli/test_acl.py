"""`keyrail acl`: what it prints, and its exit status."""

from __future__ import annotations

import hashlib
import json
from contextlib import closing
from pathlib import Path

import pytest

from proxy.cli import main
from tests.conftest import kind_named
from tests.engines import Engine
from tests.resp import Wire

POLICY = """keyrail: 1
defaults: {mode: enforce}
apps: {shop: {match: {user: shop}}, port: {match: {listener: "*:6381"}}}
rules:
  own: {names: {prefixes: {shop: ["cart:"]}}}
  no-save: {refuse: [SAVE, FT.SEARCH]}
  no-scripts: {refuse: [EVAL, EVALSHA, EVAL_RO, EVALSHA_RO, FCALL, FCALL_RO]}
  later: {refuse: [KEYS], mode: audit}
"""
DENIED = "+@all -eval -evalsha -evalsha_ro -eval_ro -fcall -fcall_ro -save"
SHOP = f"on clearselectors resetkeys resetchannels ~cart:* &* {DENIED} (+sort +sort_ro ~*)"


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "shop.yaml"
    path.write_text(POLICY)
    return str(path)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["acl", *arguments, "--for", "redis-7.0"]) == 0
    return capsys.readouterr().out.splitlines()


def test_text(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "--policy", file)
    assert [line for line in lines if not line.startswith("#")] == [
        f"ACL SETUSER default on clearselectors resetkeys resetchannels ~* &* {DENIED}",
        f"ACL SETUSER shop {SHOP}",
    ]
    assert "# port: Redis cannot tell its clients by their listener" in lines
    assert "# enforced for nobody, so not in here: later" in lines
    assert "# user default: Keyrail's own login, and clients of shop and port and of no app" in lines
    assert "# wider: rule own: SORT, SORT_RO: the patterns of BY and GET need a selector with all keys" in lines
    assert "# if Redis has these commands, add: ACL SETUSER shop -ft.search" in lines


def test_lines_of_an_acl_file_have_a_password_that_redis_does_not_take(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(capsys, "--policy", file, "--users-acl", "--login", "keyrail")
    users = [line for line in lines if not line.startswith("#")]
    assert [line.split()[:3] for line in users] == [
        ["user", name, "#SHA256-OF-THE-PASSWORD"] for name in ("keyrail", "shop")
    ]


def test_an_engine_loads_such_a_file_only_with_passwords(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, acl_file = kind_named("valkey-9.1"), tmp_path / "users.acl"
    lines = printed(capsys, "--policy", file, "--users-acl", "--login", "keyrail")
    users = "".join(f"{line}\n" for line in lines if not line.startswith("#"))
    acl_file.write_text(users)
    with pytest.raises(RuntimeError):
        Engine(kind, {"aclfile": str(acl_file)})
    acl_file.write_text(users.replace("SHA256-OF-THE-PASSWORD", hashlib.sha256(b"secret").hexdigest()))
    with closing(Engine(kind, {"aclfile": str(acl_file)})) as engine, Wire(engine.address) as shop:
        assert shop.ask("AUTH", "shop", "secret") == b"+OK\r\n"
        assert shop.ask("SET", "cart:1", "x") == b"+OK\r\n"
        assert shop.ask("SET", "other", "x").startswith(b"-NOPERM")


def test_json(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    made = json.loads("\n".join(printed(capsys, "--policy", file, "--json")))
    assert [(user["user"], user["apps"], user["others"]) for user in made["users"]] == [
        ("default", ["shop", "port"], True),
        ("shop", ["shop"], False),
    ]
    assert " ".join(made["users"][1]["rules"][:-1]) + " (+sort +sort_ro ~*)" == SHOP
    assert made["users"][1]["wider"][-1]["rule"] == "own"
    assert made["not_enforced"] == ["later"]


def test_a_policy_that_is_not_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text("keyrail: 2\n")
    assert main(["acl", "--policy", str(path), "--for", "valkey-9"]) == 2
    assert "wrong.yaml:1" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "a b", "a'b"])
def test_a_login_that_no_acl_can_have(name: str, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["acl", "--policy", file, "--for", "valkey-9", "--login", name])
    assert "--login: expected a user's name" in capsys.readouterr().err
