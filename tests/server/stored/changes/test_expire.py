"""TTLs are given to keys that have none, and taken back from those that still have that one."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.rules.stored import StoredKey
from proxy.server.stored.changes.expire import Expire, Undo
from proxy.server.stored.changes.journal import Entry, Journal, JournalError, read_expiries
from proxy.server.stored.changes.model import Outcome, Wish
from tests.server.stored.changes.given import Run, random_trouble
from tests.server.stored.changes.test_purge import PHASES, Clients, random_value
from tests.server.stored.fake_servers import FakeServer

DAY = 86_400_000


def ttl_of(app: str, _key: StoredKey, chance: float) -> int | None:
    return None if app == "x" else round(DAY * (1 - 0.1 * chance))


@settings(max_examples=200, deadline=None, phases=PHASES)
@given(st.randoms(use_true_random=False))
def test_only_keys_without_a_ttl_get_one_and_only_that_one_is_taken_back(random: Random) -> None:
    server = FakeServer(random)
    server.held[0] = {b"%c%d" % (random.choice(b"kx"), each): random_value(random) for each in range(30)}
    run, clients = Run(Expire(0, ttl_of, random.random)), Clients(server, random)
    run.before, run.trouble = clients.act, lambda: random_trouble(random, 0.05)
    run.runs = lambda: random.random() < 0.5
    run.go(server)
    given_at = {command[1]: int(command[2]) for _, command, _ in server.changed}
    for _, command, before in server.changed:
        assert before.ttl == -1
        assert command[1].startswith(b"k")
        assert 0.9 * DAY <= int(command[2]) - 1000 * server.seconds <= DAY
    assert run.notes.ended(Outcome.DONE) <= given_at.keys()
    assert given_at.keys() <= run.notes.ended(Outcome.DONE) | run.notes.ended(Outcome.UNKNOWN)
    server.changed.clear()
    now = 1000 * server.seconds
    undo = Run(Undo(Entry(0, key, at) for key, at in given_at.items()))
    undo.before = clients.act
    check = server.changing

    def change(database: int, command: tuple[bytes, ...]) -> int:
        assert now + server.held[database][command[1]].ttl == given_at[command[1]]
        return check(database, command)

    server.changing = change
    undo.go(server)
    assert {command[0] for _, command, _ in server.changed} <= {b"PERSIST"}
    for key in given_at.keys() - clients.touched:
        assert server.held[0][key].ttl == -1


def wish(key: bytes, at: int) -> Wish:
    return Wish(StoredKey(key, "string", None), (b"PEXPIREAT", key, b"%d" % at), -1, -1)


def test_a_journal_tells_what_may_expire(tmp_path: Path) -> None:
    file = tmp_path / "journal"
    journal = Journal(file, {"keyrail": "expire"})
    first = journal.will("one", 2, [wish(b"a", 1), wish(b"\xff\n", 2), wish(b"c", 3), wish(b"d", 4)])
    second = journal.will("one", 2, [wish(b"late", 5)])
    outcomes = [Outcome.DONE, Outcome.UNKNOWN, Outcome.CHANGED, Outcome.GONE]
    told = [wish(b"a", 1), wish(b"\xff\n", 2), wish(b"c", 3), wish(b"d", 4)]
    journal.done(first, [*zip(told, outcomes, strict=True)])
    journal.done(second, [(wish(b"late", 5), Outcome.LATE)])
    journal.will("one", 2, [wish(b"not told", 6)])
    journal.close()
    with file.open("ab") as torn:
        torn.write(b'{"batch": 4, "wi')
    assert [*read_expiries(file)] == [Entry(2, b"a", 1), Entry(2, b"\xff\n", 2), Entry(2, b"not told", 6)]
    with pytest.raises(JournalError, match="File exists"):
        Journal(file, {})
    file.write_text("{}\n")
    with pytest.raises(JournalError, match="is no journal of this version"):
        [*read_expiries(file)]
    other = tmp_path / "other"
    purged = Journal(other, {})
    purged.will("one", 0, [Wish(StoredKey(b"a", "string", None), (b"UNLINK", b"a"), -1, -1)])
    with pytest.raises(JournalError, match="is no journal of keys that got a TTL"):
        [*read_expiries(other)]
