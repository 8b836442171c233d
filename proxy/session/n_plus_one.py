"""Runs of single reads: keys of one pattern read one by one, each when the last one's reply was there ("N+1"), where
one MGET or one pipeline would do.

Where such a read is traced, its client is followed until another kind of command comes: as long as it is, all of
its commands come to the session, and none is forwarded by the intake. When so many reads have come that they are a run,
the first of them counts, and the client is left alone.
"""

from typing import Protocol

from proxy.commands.command import Command
from proxy.commands.table import ConnectionState
from proxy.session import reply_mode
from proxy.session.ports import EffectivePolicy
from proxy.session.views import ConnectedClient
from proxy.traffic.interval_stats import READS_OF_RUN
from proxy.traffic.shapes import pattern_of

_PAUSE = 0.25
"""Seconds; reads that come later than that are no run."""


class NPlusOneClient(ConnectedClient, Protocol):
    """A session, as far as what it reads is followed."""

    effective_policy: EffectivePolicy
    n_plus_one: "NPlusOneDetector | None"

    def plain_commands(self) -> bytes:
        """What the intake may send by itself."""


class NPlusOneDetector:
    """A client that is followed from a first read on, which stands for `weight` reads.

    ``simple`` is its session's table of simple commands meanwhile: it is empty, so the intake forwards none.
    """

    __slots__ = ("_key", "_pattern", "_reads", "_seen", "_simple", "_weight")

    def __init__(self, session: NPlusOneClient, simple: bytes, key: bytes, pattern: str, weight: int) -> None:
        self._simple = simple
        self._key = key
        self._pattern = pattern
        self._weight = weight
        self._reads = 1
        self._seen = session.ports.traces.clock()

    def meet(self, session: NPlusOneClient, command: Command) -> None:
        """The next command of the client, before anything has been done about it."""
        if session.intake.simple is not self._simple:
            # The policy, or the upstream, is another one now, and the intake may have forwarded commands itself.
            session.n_plus_one = None
            return
        before, self._seen = self._seen, session.ports.traces.clock()
        key = _read_alone(session, command)
        if key is None or key == self._key or self._seen - before > _PAUSE or _pattern(session, key) != self._pattern:
            self._end(session)
            return
        self._key = key
        self._reads += 1
        if self._reads == READS_OF_RUN:
            session.ports.traces.found_n_plus_one(self._pattern, self._weight)
            self._end(session)

    def _end(self, session: NPlusOneClient) -> None:
        session.n_plus_one = None
        session.intake.simple = session.plain_commands()


def begin(session: NPlusOneClient, command: Command, weight: int) -> None:
    """Follow the client of a traced command, if it reads one key under a policy that counts keys."""
    if session.n_plus_one is not None or not session.effective_policy.compiled.policy.count_keys:
        return
    key = _read_alone(session, command)
    if key is not None:
        reads = session.ports.traces.start_n_plus_one(weight)
        if reads > 0:
            session.intake.simple = bytes(len(session.intake.simple))
            session.n_plus_one = NPlusOneDetector(session, session.intake.simple, key, _pattern(session, key), reads)


def _read_alone(session: NPlusOneClient, command: Command) -> bytes | None:
    # The key of a read of one key, by a client that waits for no reply.
    if session.sender.pending_replies > 0 or session.state.transaction is not None:
        return None
    if command.spec.state is not ConnectionState.POOL or session.state.reply_mode != reply_mode.ON:
        return None
    keys = command.known_keys
    return keys[0].name if len(keys) == 1 and not keys[0].write else None


def _pattern(session: NPlusOneClient, key: bytes) -> str:
    return pattern_of(session.effective_policy.compiled.policy.schema, key)
