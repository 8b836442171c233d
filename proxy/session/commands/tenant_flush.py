"""FLUSHDB of a tenant: Keyrail deletes the tenant's keys in a walk, while nothing else of the tenant writes.

    hold    what the tenant's clients write, in all workers; what is under way is answered first (``tenant_holds``)
    walk    over all keys of the database, once, within the time of ``tenants.walk``; each page is deleted by UNLINK.
            In a cluster no slot may move meanwhile, as its keys would be where the walk has been already
    end     each worker says whether it has held the writes all the time

SCAN tells each key that is there during the whole walk, and nobody creates one meanwhile. So whatever was written
before is gone, and whatever comes behind it stays. Where one of the steps fails, the error says how many keys have
gone. UNLINKs that are not answered when the client leaves or the time is over may still run, so the hold ends behind
them; where their connection is lost, so that nobody answers, some seconds later.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import hiredis

from proxy.cluster.own_slots import Standing, standing
from proxy.commands.command import Command
from proxy.commands.slots import slot_of
from proxy.commands.words import word_of
from proxy.policy.decision import Decision
from proxy.policy.tenants import Tenant
from proxy.rules.key_walk import Stopped, Walk, failed
from proxy.rules.verdict import Answer, Procedure, Refuse, Steps
from proxy.session.commands import switching, tenant_walks
from proxy.session.policy import procedure
from proxy.session.policy.node_questions import stood_for
from proxy.session.ports.pause_port import TenantHold
from proxy.session.ports.ports import Questions
from proxy.session.progress import Step
from proxy.session.running_procedure import Answered
from proxy.session.session import Session
from proxy.session.state import Awaited, Pinned
from proxy.wire.decode import read_reply
from proxy.wire.encode import OK, encode_error

_MOST_AT_ONCE = 100
"""Keys of one UNLINK."""
_LATE_SECONDS = 5.0
"""For replies that are pending when the time is over, and for deletes on a connection that is lost."""
_END_SECONDS = 5.0
"""For workers to settle before the walk, and to say afterwards what they have held."""
_SYNTAX_ERROR = b"-ERR syntax error\r\n"
_HOW = frozenset({b"ASYNC", b"SYNC"})
_NO_MORE = b""
_NOT_BEGUN = "no key of this tenant is gone"


def emptied(session: Session, tenant: Tenant, command: Command) -> Step[Decision]:
    """What becomes of FLUSHDB [ASYNC | SYNC], once it is over."""
    if len(command.argv) > 2 or not {word_of(word) for word in command.argv[1:]} <= _HOW:
        return Decision(Refuse(_SYNTAX_ERROR))
    if session.state.transaction is not None:
        return Decision(_refused("it is inside MULTI", _NOT_BEGUN))
    yield from switching.until_drained(session)
    session.intake.used_prefix = True
    pauses = session.ports.pauses
    assert pauses is not None, "every route has them"
    hold = pauses.tenants.begin(session, tenant.prefix, tenant.terms.walk.time + _LATE_SECONDS + _END_SECONDS)
    asking = _Asking(session, hold)
    try:
        while hold.begun is None:
            yield from _waits(session)
        if hold.begun:
            return Decision(_refused(f"its clients' writes could not be held: {hold.begun}", _NOT_BEGUN))
        flush = _Flush(session, tenant)
        end = yield from procedure.ended(session, flush.procedure, asking)
        if isinstance(end, Exception):
            raise end
        if asking.pending:
            return Decision(end)  # no success: they are held until that is answered
        asking.end(session)
        while hold.ended is None:
            yield from _waits(session)
        if hold.ended and isinstance(end, Answer) and end.reply == OK:
            end = _refused(hold.ended, flush.gone())
        return Decision(end)
    finally:
        _note_written(session)
        asking.end()


def _note_written(session: Session) -> None:
    # Replicas may lack what has been written for this client.
    if session.sender.reads is not None:
        session.sender.reads.note_everywhere(True)


def _waits(session: Session) -> Step[None]:
    session.wait_for(Awaited.PROCEDURE)
    yield


def _refused(why: str, gone: str) -> Refuse:
    return Refuse(encode_error(f"DENIED keyrail: FLUSHDB has not been completed: {why}; {gone}; send it again"))


class _Asking:
    """Sends the questions of one walk, and ends the hold once none is ``pending``."""

    def __init__(self, session: Session, hold: TenantHold) -> None:
        self._ask = tenant_walks.asking(session, writes=True)
        self._hold = hold
        self.pending = False
        self._deletes = False
        self._over = False
        self._session = session

    def __call__(self, questions: Questions, answered: Answered) -> None:
        """Ask."""
        self.pending = True
        self._deletes = any(question[0] == b"UNLINK" for question in questions)
        self._ask(questions, partial(self._come, answered))

    def _come(self, answered: Answered, frames: Sequence[bytes] | None) -> None:
        if frames is None and self._deletes:
            self._end_later()
        else:
            self.pending = False
        if not self._over:
            answered(frames)
        elif not self.pending:
            self._hold.end()

    def _end_later(self) -> None:
        # The connection is lost with deletes that may have arrived.
        self._session.ports.route.after(_LATE_SECONDS, self._have_ended)

    def _have_ended(self) -> None:
        self.pending = False
        if self._over:
            self._hold.end()

    def end(self, waiter: Session | None = None) -> None:
        """The walk is over; ``waiter`` waits for what the workers say."""
        # What is asked on the client's own connection ends with it.
        if not self._over and self.pending and self._session.gone and type(self._session.state) is Pinned:
            self.pending = self._deletes
            if self.pending:
                self._end_later()
        if not self._over and not self.pending:
            self._hold.end(waiter)
        self._over = True


class _Flush:
    """One walk that deletes what it finds."""

    def __init__(self, session: Session, tenant: Tenant) -> None:
        self._tenant = tenant
        self._now = session.ports.route.now
        nodes = session.ports.nodes
        self._of_nodes = nodes is not None
        walked = [] if nodes is None else stood_for(nodes, session.origin)
        self._walked = [] if nodes is None else [nodes.identity(node) for node in walked]
        self._others = set() if nodes is None else {*map(nodes.identity, nodes.primaries())}.difference(self._walked)
        self._deleted = 0
        self._asked = 0
        budget = tenant.terms.walk
        self.procedure = Procedure(self._steps, budget.time + _LATE_SECONDS, lambda why: _refused(why, self.gone()))

    def gone(self) -> str:
        """What has been deleted, for an error."""
        gone = f"{self._deleted} keys of this tenant are gone" if self._deleted else _NOT_BEGUN
        return f"{gone}, and up to {self._asked} more may be" if self._asked else gone

    def _steps(self) -> Steps:
        stopped = yield from (self._walk_nodes() if self._of_nodes else self._walk())
        if stopped is None:
            return Answer(OK)
        if not stopped.error:
            return _refused(stopped.why, self.gone())
        return Answer(stopped.error[:-2] + f" (FLUSHDB: {self.gone()})\r\n".encode())

    def _walk_nodes(self) -> Walk[Stopped | None]:
        before = yield from self._standing()
        if isinstance(before, Stopped):
            return before
        stopped = yield from self._walk()
        after = before if stopped is not None else (yield from self._standing())
        if isinstance(after, Stopped):
            return after
        return stopped if after == before else Stopped("slots of the cluster have moved meanwhile")

    def _standing(self) -> Walk[Standing | Stopped]:
        if not self._walked:
            return Stopped("no node of the cluster can be asked now")
        frames = yield [(b"CLUSTER", b"NODES") for _ in self._walked]
        for frame in frames:
            if isinstance(read_reply(frame), hiredis.ReplyError):
                return failed(frame, "CLUSTER NODES")
        found = standing(dict(zip(self._walked, frames, strict=True)), self._others)
        return found if found.settled else Stopped("slots of the cluster are moving, or have lost their node")

    def _walk(self) -> Walk[Stopped | None]:
        budget, pattern = self._tenant.terms.walk, tenant_walks.all_of(self._tenant)
        end, count = self._now() + budget.time, b"%d" % budget.count
        cursor, unlinks = b"0", list[list[bytes]]()
        while True:
            scan = [] if cursor == _NO_MORE else [[b"SCAN", cursor, b"MATCH", pattern, b"COUNT", count]]
            self._asked = sum(len(unlink) - 1 for unlink in unlinks)
            frames = yield [*unlinks, *scan]
            self._asked = 0
            stopped = self._count(frames[: len(unlinks)])
            if stopped is not None or not scan:
                return stopped
            page = read_reply(frames[-1])
            if isinstance(page, hiredis.ReplyError):
                return failed(frames[-1], "SCAN")
            if self._now() >= end:
                return Stopped(f"it took longer than {budget.time:g} s, the time of tenants.walk")
            cursor, names = page
            if not all(name.startswith(self._tenant.prefix) for name in names):
                return Stopped("SCAN has named keys that do not match")
            unlinks = [[b"UNLINK", *batch] for batch in self._batches(names)]
            if cursor == b"0":
                if not unlinks:
                    return None
                cursor = _NO_MORE

    def _batches(self, names: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
        if not self._of_nodes:
            yield from _batched(names)
            return
        by_slot: dict[int, list[bytes]] = {}
        for name in names:
            by_slot.setdefault(slot_of(name), []).append(name)
        for of_one_slot in by_slot.values():
            yield from _batched(of_one_slot)

    def _count(self, frames: Sequence[bytes]) -> Stopped | None:
        stopped = None
        for frame in frames:
            deleted = read_reply(frame)
            if isinstance(deleted, hiredis.ReplyError):
                stopped = failed(frame, "UNLINK")
            else:
                self._deleted += deleted
        return stopped


def _batched(names: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    return (names[begin : begin + _MOST_AT_ONCE] for begin in range(0, len(names), _MOST_AT_ONCE))
