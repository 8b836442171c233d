"""`keyrail doctor` finds each problem, on real engines, and writes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engines import EXPECTED, Engine, free_port
from tests.failover.fake_sentinel import sentinels_naming, url_of
from tests.fork_server import Forked
from tests.keyrail_process import FORKED, environment
from tests.resp import PATIENCE_SECONDS

NewEngine = Callable[..., Engine]
OK, WARN, FAIL = 0, 1, 2


def doctor(upstream: str, *arguments: str, open_files: int = 20_000) -> tuple[int, str]:
    """Exit status and output."""
    words = ["doctor", "--upstream", upstream, *arguments]
    if FORKED:
        forked = Forked(words, env=environment(), open_files=open_files)
        assert forked.stdout is not None
        assert forked.stderr is not None
        with forked.stdout as told, forked.stderr as complaints:
            text = told.read()
            assert complaints.read() == ""
        return forked.wait(PATIENCE_SECONDS), text
    command = [sys.executable, "-m", "proxy", *words]
    ended = subprocess.run(
        ["sh", "-c", f'ulimit -n {open_files} && exec "$@"', "sh", *command],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=3 * PATIENCE_SECONDS,
        check=False,
    )
    assert ended.stderr == ""
    return ended.returncode, ended.stdout


def found(text: str, start: str) -> bool:
    return any(line.startswith(start) for line in text.splitlines())


OLD = ("redis-6.2", "redis-7.0")
"""Engines without MSETEX."""

WELL = {"requirepass": "secret", "maxmemory": "100mb", "maxmemory-policy": "volatile-ttl"}


@pytest.mark.parametrize("engine_name", EXPECTED)
def test_a_redis_in_order(new_engine: NewEngine, tmp_path: Path, engine_name: str) -> None:
    engine = new_engine(engine_name, WELL)
    (tmp_path / "password").write_text("secret\n")
    url = f"redis://127.0.0.1:{engine.port}?password_file={tmp_path / 'password'}"
    status, text = doctor(url, "--policy", "strict")
    assert status == OK, text
    assert ("has no MSETEX; lifetimes on MSET and MSETNX use a follow-up E" in text) == (engine_name in OLD), text
    assert ("has no EXPIRE with NX; Keyrail runs a script (EVAL) instead" in text) == (engine_name == "redis-6.2"), text
    assert len([line for line in text.splitlines() if not line.startswith(" ")]) == 10
    assert engine.info("keyspace").keys() <= {"# Keyspace"}, "it has written something"


def test_the_primary_that_sentinels_name(new_engine: NewEngine) -> None:
    primary, replica = new_engine(), new_engine()
    replica.do("REPLICAOF", "127.0.0.1", primary.port)
    dead = free_port()
    with sentinels_naming(primary.port, primary.port) as sentinels:
        status, text = doctor(url_of(*sentinels, dead))
    assert status == WARN, text
    assert found(text, "WARN redis+sentinel://127.0.0.1:"), text
    assert f"Sentinel 127.0.0.1:{dead}: Connection refused" in text
    assert found(text, "OK   it is a primary"), text
    for named in ([replica.port] * 2, [primary.port, replica.port], []):
        with sentinels_naming(*named) as sentinels:
            status, text = doctor(url_of(*sentinels, dead))
        assert status == FAIL, text
    assert "no Sentinel answers" in text


CASES: dict[str, tuple[dict[str, str], str, str]] = {
    "no password": ({}, "strict", "WARN Redis asks for no password; it is on this machine"),
    "no limit of memory": ({}, "strict", "WARN maxmemory is 0"),
    "nothing to evict": (
        {"maxmemory": "100mb", "maxmemory-policy": "volatile-lru"},
        "none",
        "WARN volatile-lru evicts only keys with a TTL",
    ),
    "no eviction of a cache": (
        {"maxmemory": "100mb", "maxmemory-policy": "noeviction"},
        "cache",
        "WARN noeviction refuses writes (OOM)",
    ),
    "few connections": ({"maxclients": "100"}, "none", "WARN Redis takes 9"),
    "a cluster": ({"cluster-enabled": "yes"}, "none", "OK   a node of a cluster: serve finds the others"),
    "a replica": ({"replicaof": "127.0.0.1 1"}, "none", "FAIL it is a replica"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_is_found(new_engine: NewEngine, name: str) -> None:
    options, policy, expected = CASES[name]
    status, text = doctor(new_engine(options=options).url, "--policy", policy)
    assert found(text, expected), text
    assert status == (FAIL if expected.startswith("FAIL") else WARN)


def test_commands_that_the_user_may_not_run(new_engine: NewEngine) -> None:
    engine = new_engine()
    engine.do("ACL", "SETUSER", "keyrail", "on", ">secret", "~*", "&*", "+@all", "-eval", "-config", "-time")
    status, text = doctor(f"redis://keyrail:secret@127.0.0.1:{engine.port}", "--policy", "tour")
    assert status == WARN
    assert found(text, "WARN the user may not run EVAL, which rules of the policy send"), text
    assert "+eval" in text
    assert found(text, "WARN Keyrail cannot read the eviction policy: CONFIG GET is not allowed")
    assert found(text, "WARN Keyrail cannot compare the clocks: TIME is not allowed")


@pytest.mark.parametrize("lacked", ["multi", "discard"])
def test_commands_of_which_it_cannot_be_told_whether_the_user_may_run_them(new_engine: NewEngine, lacked: str) -> None:
    engine = new_engine()
    engine.do("ACL", "SETUSER", "keyrail", "on", ">secret", "~*", "&*", "+@all", f"-{lacked}")
    status, text = doctor(f"redis://keyrail:secret@127.0.0.1:{engine.port}", "--policy", "tour")
    assert status == WARN, text
    assert found(text, "WARN it cannot be told whether the user may run "), text
    assert "ACL SETUSER … +multi +discard" in text
    assert "the user may not run" not in text
    assert found(text, "OK   the clocks agree"), "the other checks have their connection"


def test_a_replica_does_not_tell_what_the_user_may_run(new_engine: NewEngine) -> None:
    status, text = doctor(new_engine(options={"replicaof": "127.0.0.1 1"}).url, "--policy", "strict")
    assert status == FAIL
    assert found(text, "WARN it cannot be told whether the user may run "), text
    assert "the user may not run" not in text
    assert "may run them" not in text


def test_a_command_that_was_renamed(new_engine: NewEngine, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("keyrail: 1\nrules: {lazy: {replace: {DEL: UNLINK}}}\n")
    engine = new_engine("redis-7.0", {"rename-command": "UNLINK gone"})
    status, text = doctor(engine.url, "--policy", os.fspath(policy))
    assert status == WARN
    assert "has no UNLINK; rules that send it leave the client's command as it is" in text


def test_a_low_limit_of_open_files(new_engine: NewEngine) -> None:
    _, text = doctor(new_engine().url, "--policy", "none", open_files=200)
    assert found(text, "WARN the limit of 200 open files allows"), text


def test_a_redis_that_cannot_be_had(new_engine: NewEngine, tmp_path: Path) -> None:
    assert doctor(f"redis://127.0.0.1:{free_port()}")[0] == FAIL
    engine = new_engine(options={"requirepass": "secret"})
    status, text = doctor(engine.url)
    assert (status, found(text, f"FAIL {engine.url} asks for a password")) == (FAIL, True), text
    status, text = doctor(f"redis://:wrong@127.0.0.1:{engine.port}")
    assert (status, "WRONGPASS" in text) == (FAIL, True), text
    policy = tmp_path / "wrong.yaml"
    policy.write_text("rules: {a: {refuse: 1}}\n")
    status, text = doctor(engine.url, "--policy", os.fspath(policy))
    assert (status, found(text, "FAIL the policy is not valid: ")) == (FAIL, True), text


def test_a_listener_that_lets_anybody_in(new_engine: NewEngine, tmp_path: Path) -> None:
    url = new_engine("valkey-9.1", WELL).url.replace("://", "://:secret@")
    listens = ("--policy", "strict", "--listen", "127.0.0.1:1", "--listen", "0.0.0.0:2")
    status, text = doctor(url, *listens)
    assert status == WARN
    assert found(
        text, "WARN redis://0.0.0.0:2 asks clients for no login: any client that reaches it acts as user 'default' of "
    )
    for asks in (("--client-auth", "upstream"), ("--client-password-file", str(tmp_path / "passwords"))):
        status, text = doctor(url, *listens, *asks)
        assert (status, found(text, "OK   clients beyond this machine have to log in")) == (OK, True), text
