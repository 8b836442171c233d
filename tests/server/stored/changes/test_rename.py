"""Keys move behind the prefix of a tenant, and out from behind it: each once, with its value and its TTL."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.cli import main
from proxy.policy.tenants import Piece, StoredNames, Tenants
from proxy.rules.stored import StoredKey
from proxy.server.stored.changes.journal import Journal
from proxy.server.stored.changes.rename import Rename, Renaming
from proxy.server.stored.judging import StoredJudge
from tests.engines import EXPECTED, Engine
from tests.policy.given import policy

POLICY = """
apps: {acme: {match: {user: acme}}, globex: {match: {user: globex}}}
tenants: {prefix: "{app}:", apps: [acme, globex]}
rules: {}
"""
JUDGE = StoredJudge(policy(POLICY), 0.0)
NAMES = StoredNames(Tenants((Piece("", "app"), Piece(":")), frozenset({"acme", "globex"})))
Verb = Callable[..., tuple[int, str, str]]


@pytest.fixture
def verb(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Verb:
    file = tmp_path / "policy.yaml"
    file.write_text(f"keyrail: 1{POLICY}")

    def run(url: str, old: str, new: str, *arguments: str, typed: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        options = ["--upstream", url, "--policy", str(file), "--share", "100%", "--app", "acme"]
        status = main(["tenants", "migrate", *options, "--from", old, "--to", new, *arguments])
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return run


def fill(engine: Engine) -> dict[str, object]:
    for each in range(200):
        engine.do("SET", f"cart:{each}", f"v{each}", *(("EX", "9000") if each % 2 else ()))
    engine.do("RPUSH", "list", "a", "b")
    engine.do("HSET", "globex:h", "f", "v")
    return dumped(engine)


def dumped(engine: Engine) -> dict[str, object]:
    names = cast("list[bytes]", engine.do("KEYS", "*"))
    return {name.decode(): (engine.do("DUMP", name), engine.do("TTL", name) != -1) for name in names}


@pytest.mark.parametrize("scripts", [True, False])
@pytest.mark.parametrize("engine_name", EXPECTED)
def test_there_and_back(
    new_engine: Callable[..., Engine], engine_name: str, scripts: bool, verb: Verb, tmp_path: Path
) -> None:
    engine = new_engine(engine_name)
    before = fill(engine)
    url = engine.url
    if not scripts:
        engine.do("ACL", "SETUSER", "mover", "on", ">secret", "~*", "+@all", "-eval", "-evalsha")
        url = engine.url.replace("redis://", "redis://mover:secret@")
    status, shown, _ = verb(url, "", "acme:", "--dry-run")
    assert (status, dumped(engine)) == (0, before)
    assert shown.startswith("201 keys, ")
    assert "would be renamed" in shown
    status, _, told = verb(url, "", "acme:", "--journal", str(tmp_path / "no"), typed="200\n")
    assert (status, "not confirmed" in told, dumped(engine)) == (1, True, before)
    status, _, told = verb(url, "", "acme:", "--journal", str(tmp_path / "there"), typed="201\n")
    assert (status, told) == (0, "")
    assert dumped(engine) == {name if name == "globex:h" else f"acme:{name}": each for name, each in before.items()}
    header, *lines = map(json.loads, (tmp_path / "there").read_text().splitlines())
    assert (header["app"], header["from"], header["to"]) == ("acme", "", "acme:")
    assert sorted(key for line in lines for key in line.get("done", ())) == sorted({*before} - {"globex:h"})
    status, _, told = verb(url, "acme:", "", "--journal", str(tmp_path / "back"), "--yes")
    assert (status, told, dumped(engine)) == (0, "", before)


def test_what_is_there_already_is_told_first(new_engine: Callable[..., Engine], verb: Verb, tmp_path: Path) -> None:
    engine = new_engine("valkey-9.1")
    engine.do("MSET", "cart:1", "old", "acme:cart:1", "other", "cart:2", "x", "acme:acme:z", "y")
    status, shown, _ = verb(engine.url, "", "acme:", "--dry-run")
    assert (status, "keys that begin with acme: already: 2" in shown) == (0, True)
    status, _, told = verb(engine.url, "", "acme:", "--journal", str(tmp_path / "1"), "--yes")
    assert (status, "begin with acme: already: 2. Nothing was done" in told) == (1, True)
    assert engine.do("EXISTS", "cart:1", "cart:2") == 2
    status, shown, _ = verb(engine.url, "", "acme:", "--journal", str(tmp_path / "2"), "--yes", "--again")
    assert (status, "left alone: 1 for which another key has the new name" in shown) == (1, True)
    assert engine.do("MGET", "cart:1", "acme:cart:1", "acme:cart:2") == [b"old", b"other", b"x"]
    status, shown, _ = verb(engine.url, "acme:", "", "--journal", str(tmp_path / "3"), "--yes")
    assert "1 would begin with the prefix of a tenant" in shown
    assert engine.do("MGET", "cart:1", "acme:cart:1", "cart:2", "acme:acme:z") == [b"old", b"other", b"x", b"y"]


def test_somebody_who_writes_meanwhile_is_told(
    new_engine: Callable[..., Engine], verb: Verb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = new_engine("valkey-9.1")
    engine.do("SET", "cart:1", "x")
    done = Journal.done

    def written(journal: Journal, *told: Any) -> None:
        engine.do("SET", "cart:1", "newer")
        done(journal, *told)

    monkeypatch.setattr(Journal, "done", written)
    status, _, told = verb(engine.url, "", "acme:", "--pattern", "*", "--journal", str(tmp_path / "1"), "--yes")
    assert (status, told) == (1, "keyrail: still there: 1 keys. Somebody uses them: stop that, and add --again\n")
    assert engine.do("MGET", "cart:1", "acme:cart:1") == [b"newer", b"x"]


@pytest.mark.parametrize(
    ("old", "new"), [("", "x:"), ("acme:", "globex:"), ("globex:", ""), ("", "acme:x:"), ("acme:", "acme:"), ("", "")]
)
def test_one_of_both_is_the_apps_prefix(verb: Verb, old: str, new: str) -> None:
    status, _, told = verb("redis://127.0.0.1:1", old, new, "--dry-run")
    assert status == 2
    assert "expected the prefix of acme in one of them, and no tenant's in the other" in told


parts = st.lists(st.sampled_from([b"acme:", b"globex:", b"acme", b":", b"x", b"\xff"]), max_size=4).map(b"".join)


@given(names=st.sets(parts, min_size=1), old=st.sampled_from([b"", b"old:", b"acm", b"acme"]))
def test_what_goes_there_comes_back_and_nothing_else_moves(names: set[bytes], old: bytes) -> None:
    judged, now = JUDGE.judge(StoredKey(b"x", "string", None)), {name: name for name in names}
    for change in (Rename(Renaming(old, b"acme:"), NAMES), Rename(Renaming(b"acme:", old), NAMES)):
        for first, name in now.items():
            key = StoredKey(name, "string", None)
            if change.concerns(0, name) and change.picks(key, judged, Counter()):
                wish = change.wish(0, key, judged, 0, 0)
                assert wish is not None
                now[first] = wish.command[2]
                assert not change.concerns(0, now[first]) or not change.picks(
                    StoredKey(now[first], "string", None), judged, Counter()
                )
    for first, name in now.items():
        was = NAMES.own(first)
        assert name == first or (was is not None and was.app == "acme")
