"""A command on its way through a session, what it waits for, and its follow-ups."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from proxy.commands.command import Command
from proxy.hotpath.plan.replica_reads import ReplicaTerms
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.policy.decision import Decision, HiddenCommands
from proxy.rules.verdict import Renewal, ReplyEdit
from proxy.session.ports.open_trace import OpenTrace
from proxy.session.ports.pool_key import PoolKey
from proxy.session.ports.pool_waiter import Waiter
from proxy.session.ports.ports import AwaitedReply
from proxy.session.progress import Step
from proxy.session.state import DatabaseSwitch


class LookAhead(NamedTuple):
    """What the client has sent behind a command: ``data`` from ``end`` on."""

    data: bytes
    end: int


NO_LOOK_AHEAD = LookAhead(b"", 0)


@dataclass(slots=True)
class JudgedCommand:
    """A judged command and its bytes, as handlers of commands about the connection get it: what Redis says of such a
    command is for the handler, so rules can neither edit the reply nor send commands along."""

    command: Command
    raw: bytes


@dataclass(slots=True, eq=False)
class Change:
    """A command of the client: ``names`` are those that it adds or removes. It waits until all of them are confirmed,
    or there is an ``error``. All names but those in ``left`` have been seen confirmed."""

    kind: int
    opening: bool
    names: frozenset[bytes]
    error: bytes = b""
    left: list[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.left = list(self.names)


@dataclass(slots=True, eq=False)
class Ping:
    """A PING of a subscribed client, and the reply once all messages before it have left."""

    reply: bytes = b""


@dataclass(slots=True)
class Item(JudgedCommand):
    """The same with all that a rule may want of a command that is forwarded."""

    edit: ReplyEdit | None = None
    hidden: tuple[HiddenCommands, ...] = ()
    trace: OpenTrace | None = None
    """There for a traced command."""
    reads: bool = False
    """Whether the client's own command only reads, even if a rule has rewritten it to one that writes."""
    held_since: float | None = None
    """In seconds since the epoch, if its node could not be reached then."""
    look_ahead: LookAhead = NO_LOOK_AHEAD
    """Of MULTI."""
    instead_of: Command | None = None
    """The client's own command, where a rule has rewritten it, or a tenant's prefix was added."""
    only_prefixed: bool = False
    """Whether only the prefix was added, and no name is in the reply, unless that is an error."""
    value_edit: ReplyEdit | None = None
    """How rules change the reply to a command that they leave as it is, whoever gives that reply: the primary, a
    replica or memory, which has it as Redis has sent it. It is a part of ``edit``."""
    hides_nodes: bool = False
    """With a cluster upstream: whether ``edit`` already removes the addresses of nodes."""
    terms: ReplicaTerms | None = None
    """By which terms a replica may answer it."""
    wrapper: Command | None = None
    """The KEYRAIL NODE that carried it, if one did."""
    ping: Ping | None = None
    """With a cluster upstream: a PING of a subscribed RESP2 client, once it has been sent."""
    asked: bool = False
    """Whether a rule has asked Redis about it."""
    awaited_reply: AwaitedReply | None = None
    """A read that has waited for its reply to come into memory."""
    announced: bool = False
    """Whether it makes Redis hold writes back, and everybody is told."""
    announcement: "Arrival | None" = None
    """That everybody knows."""
    holds: bool = True
    """Whether it holds its keys in memory, once it is sent: not where a rule only counts what it would answer."""
    judging: Step[Decision] | None = None
    """What is left of its judging, while that waits."""
    step: Step[None] | None = None
    """What is left of it, once something of it has been sent and it waits."""

    @property
    def may_be_answered_elsewhere(self) -> bool:
        """Whether a replica's reply, or one from memory, is what the primary would answer, once it has its
        ``value_edit``."""
        changed = self.edit is not self.value_edit or self.instead_of is not None
        return (self.only_prefixed or not changed) and not self.hidden and self.wrapper is None

    def close(self) -> None:
        """It comes to no other end: what its steps hold is given back."""
        for step in (self.judging, self.step):
            if step is not None:
                step.close()


class RanOn:
    """The connection on which a command has run, and whether behind ASKING: another one than it was sent to first where
    a node of a cluster refused it and it was sent again."""

    __slots__ = ("asks", "upstream")

    def __init__(self, upstream: UpstreamPipeline) -> None:
        self.upstream = upstream
        self.asks = False


class HeardReply:
    """Hears a reply, for what follows the command that ran on this connection."""

    __slots__ = ("_hear", "ran_on")

    def __init__(self, hear: Callable[[bytes], Any], ran_on: RanOn) -> None:
        self._hear = hear
        self.ran_on = ran_on

    def __call__(self, frame: bytes) -> Any:
        return self._hear(frame)


class Arrival(Waiter):
    """What a client waits for, until it is ``over``, whatever else brings the client on meanwhile."""

    def __init__(self, client: Waiter) -> None:
        self._client = client
        self.over = False

    @property
    def gone(self) -> bool:
        """Whether its client has left."""
        return self._client.gone

    def arrived(self) -> None:
        """It has come."""
        self.over = True
        self._client.arrived()

    def close(self, cause: str) -> None:
        """It will not come."""
        self.arrived()

    def turn_away(self, _error: bytes, cause: str) -> None:
        """The same."""
        self.arrived()


@dataclass(slots=True, eq=False)
class ReadRun:
    """Single reads of keys of one pattern, which may be a run (see ``n_plus_one``): the first of them stands for
    ``weight`` reads. ``simple`` is its session's table of simple commands meanwhile: it is empty, so the intake
    forwards none."""

    simple: bytes
    key: bytes
    pattern: str
    weight: int
    seen: float
    reads: int = 1


class FollowUp(NamedTuple):
    """A command that is to follow: ``key`` is as whom, and in which database, the client's command ran, ``upstream``
    the connection on which, ``switches`` whether the transaction in which it ran switches the client, if any, ``asks``
    whether it ran behind ASKING."""

    argv: Sequence[bytes]
    hidden: HiddenCommands
    command: Command
    key: PoolKey
    upstream: UpstreamPipeline
    switches: DatabaseSwitch | None
    asks: bool = False

    @property
    def name(self) -> Hashable:
        """What it is kept under: a later renewal of a key takes the place of an earlier one."""
        argv = self.argv
        said = (argv.key, argv.option) if isinstance(argv, Renewal) else argv
        return (self.key.database, *said)
