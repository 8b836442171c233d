"""Runs of single reads: keys of one pattern read one by one, each when the last one's reply was there ("N+1"), where
one MGET or one pipeline would do.

Where such a read is traced, its client is followed until another kind of command comes: as long as it is, all of
its commands come to the session, and none is forwarded by the intake. When so many reads have come that they are a run,
the first of them counts, and the client is left alone.
"""

from proxy.commands.command import Command
from proxy.commands.table import ConnectionState
from proxy.session import reply_mode
from proxy.session.item import ReadRun
from proxy.session.policy import tenancy
from proxy.session.session import Session
from proxy.traffic.interval_stats import READS_OF_RUN
from proxy.traffic.shapes import pattern_of

_PAUSE = 0.25
"""Seconds; reads that come later than that are no run."""


def meet(session: Session, run: ReadRun, command: Command) -> None:
    """The next command of a client that is followed, before anything has been done about it."""
    if session.intake.simple is not run.simple:
        # The policy, or the upstream, is another one now, and the intake may have forwarded commands itself.
        session.n_plus_one = None
        return
    before, run.seen = run.seen, session.ports.traces.clock()
    key = _read_alone(session, command)
    if key is None or key == run.key or run.seen - before > _PAUSE or _pattern(session, key) != run.pattern:
        _end(session)
        return
    run.key = key
    run.reads += 1
    if run.reads == READS_OF_RUN:
        session.ports.traces.found_n_plus_one(run.pattern, run.weight)
        _end(session)


def _end(session: Session) -> None:
    session.n_plus_one = None
    session.intake.simple = session.plain_commands()


def begin(session: Session, command: Command, weight: int) -> None:
    """Follow the client of a traced command, if it reads one key under a policy that counts keys."""
    if session.n_plus_one is not None or not session.effective_policy.compiled.policy.count_keys:
        return
    key = _read_alone(session, command)
    if key is not None:
        reads = session.ports.traces.start_n_plus_one(weight)
        if reads > 0:
            session.intake.simple = bytes(len(session.intake.simple))
            seen, pattern = session.ports.traces.clock(), _pattern(session, key)
            session.n_plus_one = ReadRun(session.intake.simple, key, pattern, reads, seen)


def _read_alone(session: Session, command: Command) -> bytes | None:
    # The key of a read of one key, by a client that waits for no reply.
    if session.sender.pending_replies > 0 or session.state.transaction is not None:
        return None
    if command.spec.state is not ConnectionState.POOL or session.state.reply_mode != reply_mode.ON:
        return None
    keys = command.known_keys
    return keys[0].name if len(keys) == 1 and not keys[0].write else None


def _pattern(session: Session, key: bytes) -> str:
    return pattern_of(session.effective_policy.compiled.policy.schema, key, tenancy.prefix_of(session))
