"""What the verbs of the command line make of a policy with tenants."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proxy.cli import main
from tests.session.given import call

POLICY = """keyrail: 1
defaults: {mode: enforce}
apps: {acme: {match: {user: acme}}, other: {match: {user: other}}}
tenants: {prefix: "{app}:", apps: [acme]}
rules:
  lifetimes: {lifetime: {default: 5m, keys: "cart:*"}}
  no-save: {refuse: [SAVE]}
tests:
  - {send: "SET cart:1 x", app: acme, becomes: "SET cart:1 x EX 300"}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "tenants.yaml"
    path.write_text(POLICY)
    return str(path)


def explained(capsys: pytest.CaptureFixture[str], file: str, app: str, *command: str) -> str:
    assert main(["explain", "--policy", file, "--app", app, "--", *command]) == 0
    return capsys.readouterr().out


def test_explain_shows_what_redis_gets(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = explained(capsys, file, "acme", "SET", "cart:1", "x")
    assert "rewrites it to SET cart:1 x EX 300" in text
    assert f"tenants    {file}:4  its keys begin with acme: in Redis" in text
    sent = call("SET", "acme:cart:1", "x", "EX", "300")
    assert text.endswith(f"to Redis: {repr(sent)[2:-1]}\n")
    assert r"to Redis: *2\r\n$3\r\nGET\r\n$6\r\nacme:a\r\n" in explained(capsys, file, "acme", "GET", "a")
    assert "to the client: -DENIED keyrail: FLUSHDB is not offered" in explained(capsys, file, "acme", "FLUSHDB")
    flushes = Path(file).with_name("flushes.yaml")
    flushes.write_text(POLICY.replace("prefix:", "flush: walk, only_keyrail: yes, prefix:"))
    deletes = explained(capsys, str(flushes), "acme", "FLUSHDB")
    assert deletes.endswith("\n\nKeyrail deletes the keys of the tenant, in a walk over them\n")
    assert explained(capsys, file, "acme", "DBSIZE").endswith("answers DBSIZE by a walk over the keys of the tenant\n")
    assert "to the client: -ERR wrong number of arguments for 'dbsize'" in explained(
        capsys, file, "acme", "DBSIZE", "x"
    )
    assert "to the client: -ERR syntax error" in explained(capsys, file, "acme", "SCAN", "0", "SLOT", "1")
    other = explained(capsys, file, "other", "GET", "a")
    assert "tenants" not in other.replace(file, "")
    assert r"to Redis: *2\r\n$3\r\nGET\r\n$1\r\na\r\n" in other


def test_a_name_that_is_no_tenants_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "users.yaml"
    file.write_text(POLICY.replace('"{app}:"', '"{user}:"').replace("user: acme}", 'user: "acme*"}'))
    assert main(["explain", "--policy", str(file), "--user", "acme:b", "--", "GET", "a"]) == 0
    assert "its user cannot be part of the tenant's prefix: it has ':', which ends it there" in capsys.readouterr().out


def test_a_policys_tests_have_the_tenants_own_names(file: str) -> None:
    assert main(["check", file]) == 0


def test_acl_limits_each_to_its_prefix(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["acl", "--policy", file, "--for", "redis-7.0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("where it runs more, a line says: wider; where it runs less: narrower")
    (acme,) = (line for line in lines if line.startswith("ACL SETUSER acme "))
    assert " ~acme:* &acme:* " in acme
    assert "# narrower: SORT, SORT_RO: Redis takes BY and GET only from who may read all keys" in lines
    assert main(["acl", "--policy", file, "--for", "redis-7.0", "--json"]) == 0
    users = {user["user"]: user for user in json.loads(capsys.readouterr().out)["users"]}
    assert [each["commands"] for each in users["acme"]["narrower"]] == [
        *(["SORT", "SORT_RO"], ["PSUBSCRIBE"], ["SUBSCRIBE"])
    ]
    assert users["default"]["narrower"] == []
