"""What a scan does where the server does not answer in time, is busy, or answers slowly: it waits, asks for less, and
gives up in the end."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from proxy.server.stored.changes.model import Outcome
from proxy.server.stored.changes.purge import Purge, Wanted
from proxy.server.stored.link import Answer
from proxy.server.stored.node_run import NodeLostError, NodeRun
from proxy.server.stored.node_walk import NodeWalk, Request
from tests.server.stored.changes.given import Run
from tests.server.stored.fake_servers import FakeServer, error
from tests.server.stored.test_pace import IDLE, Link, Stage, VirtualClock

BUSY = error("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.")


class Slow(Link):
    """Each command of a page takes ``each`` seconds; what is not answered within 10 s times out."""

    each = 0.0

    def __init__(self, clock: VirtualClock, server: FakeServer) -> None:
        super().__init__(clock, server)
        self.pieces: list[list[bytes]] = []

    async def ask(self, request: Request) -> Answer:
        took = IDLE + self.each * len(request.commands)
        if request.commands[-1][0] in (b"PING", b"INFO"):
            return await super().ask(request)
        self.clock.time += min(took, 10.0)
        if took > 10.0:
            raise TimeoutError
        self.worked += took - IDLE
        self.pieces.append([command[0] for command in request.commands])
        return Answer(self.server.answer(request), took)


class BusyOnce(Link):
    """A script runs when a key is watched for the first time."""

    was_busy = False

    async def ask(self, request: Request) -> Answer:
        if request.commands[0][0] == b"WATCH" and not self.was_busy:
            self.was_busy, self.server.busy = True, 2
        return await super().ask(request)


def slow(share: float, each: float, keys: int = 500) -> tuple[Stage, Slow]:
    stage = Stage(share, keys)
    stage.server.bits = 2  # more than 100 keys a page
    link = Slow(stage.clock, stage.server)
    link.each = each
    stage.use(link)
    return stage, link


def test_one_busy_reply_to_a_look_is_a_reason_to_wait_and_no_reason_to_stop_looking() -> None:
    stage = Stage(0.25)
    stage.link.info = b"rdb_bgsave_in_progress:0\r\n"
    stage.link.troubles = {53: BUSY}  # behind 50 PINGs, INFO, and the PING of the pace
    states: list[str] = []

    def watch() -> None:
        if stage.run.state and states[-1:] != [stage.run.state]:
            states.append(stage.run.state)
        if states and len(stage.judge.judged) > 1000:
            stage.link.info = b"rdb_bgsave_in_progress:%d\r\n" % (len(states) < 2)

    stage.clock.before = watch
    stage.go()
    assert [state.partition(" ")[0] for state in states] == ["BUSY", "it"]
    assert states[1] == "it saves (RDB)"
    assert stage.counted_all()


def test_who_may_not_look_walks_without_it() -> None:
    stage = Stage(0.25)
    stage.server.refuses = {b"INFO"}
    stage.link.info = None
    stage.go()
    assert stage.counted_all()
    assert sum(each == (b"INFO", b"persistence") for each in stage.server.asked) == 1


@pytest.mark.parametrize("text", ["LOADING it loads", "MASTERDOWN its link is down", "BUSY it runs a script"])
def test_a_server_that_does_not_serve_is_given_up(text: str) -> None:
    stage = Stage(0.25)
    stage.link.troubles = dict.fromkeys(range(70, 9000), error(text))
    with pytest.raises(NodeLostError, match=f"^{text}"):
        stage.go()
    assert 60 <= stage.clock.waited < 80


def test_a_wait_for_one_request_does_not_shorten_that_for_the_next() -> None:
    stage = Stage(0.25)
    stage.link.troubles = {
        each: error("MASTERDOWN its link is down") for at in (70, 250) for each in range(at, at + 40)
    }
    stage.go()
    assert stage.counted_all()


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_a_page_that_takes_longer_than_the_timeout_is_asked_in_smaller_ones(share: float) -> None:
    stage, _ = slow(share, each=0.1, keys=300)
    stage.go()
    assert stage.counted_all()
    assert stage.figures.restarts == 0


def test_what_is_never_answered_in_time_is_given_up_and_paced_until_then() -> None:
    stage, _ = slow(0.05, each=11.0)
    with pytest.raises(NodeLostError):
        stage.go()
    assert 60 < stage.clock.time - 100 < 200
    assert stage.clock.waited > 15, "a timeout counts as work"


def test_a_connection_that_each_page_breaks_is_given_up() -> None:
    stage = Stage(0.25)
    stage.link.troubles = {each: ConnectionResetError("gone") for each in range(70, 9000)}
    with pytest.raises(NodeLostError, match="gone"):
        stage.go()


def test_pieces_get_shorter_where_they_take_long_and_longer_again() -> None:
    stage, link = slow(0.25, each=0.0004, keys=2000)

    def recover() -> None:
        if len(stage.judge.judged) > 1000:
            link.each = 0.000001

    stage.clock.before = recover
    stage.go()
    assert stage.counted_all()
    assert max(map(len, link.pieces[10:40])) <= 6
    assert max(map(len, link.pieces[-10:])) > 100


def test_a_script_that_runs_between_watch_and_multi_is_waited_for() -> None:
    """It answers WATCH and MULTI then, but neither TYPE nor PTTL: the transaction must not stay open."""
    stage = Stage(1.0, keys=3)
    stage.server.refuses = {b"EVAL"}
    link = BusyOnce(stage.clock, stage.server)
    change = Run(Purge(Wanted(b"*"), lambda *_: "", Random(1).random))
    act = change.changes.at(change.tally, change.figures, lambda _: None)
    stage.run = NodeRun(NodeWalk(change.tally, change.figures, 0, act=act), link, 1.0, stage.clock, patience=60.0)
    asyncio.run(stage.run.run())
    assert link.was_busy
    assert change.outcomes == {Outcome.DONE: 3}
    assert stage.server.held[0] == {}


@pytest.mark.parametrize("scripts", [True, False])
def test_what_changes_keys_is_never_cut(scripts: bool) -> None:
    stage, link = slow(0.25, each=0.0004)
    stage.server.refuses = set() if scripts else {b"EVAL"}
    change = Run(Purge(Wanted(b"*"), lambda *_: "", Random(1).random))
    act = change.changes.at(change.tally, change.figures, lambda _: None)
    stage.run = NodeRun(NodeWalk(change.tally, change.figures, 0, act=act), link, 0.25, stage.clock, patience=60.0)
    stage.go()
    assert change.outcomes == {Outcome.DONE: 500}
    changing = [each for each in link.pieces if {b"EVAL", b"WATCH", b"EXEC"} & {*each}]
    behind = link.pieces[link.pieces.index(changing[0]) :]
    assert {len(each) for each in behind if b"MEMORY" in each} <= {*range(1, 7)}, "what only reads is cut"
    if scripts:
        assert changing == [[b"EVAL"] * len(batch) for batch in change.notes.batches]
        assert max(map(len, changing[1:])) <= 6, "the first one was not known to be slow"
    else:
        watched = [[b"WATCH", b"TYPE", b"PTTL", b"MULTI"], [b"UNLINK", b"EXEC"]]
        assert changing[1:] == 500 * watched, "behind the one that finds that EVAL is refused"
