"""A command on its way through a session, what it waits for, and its follow-ups."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from proxy.commands.command import Command
from proxy.hotpath.plan.replica_reads import ReplicaTerms
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.policy.decision import HiddenCommands
from proxy.rules.shared_state import FactKey
from proxy.rules.verdict import Renewal, ReplyEdit
from proxy.session.ports.open_trace import OpenTrace
from proxy.session.ports.pool_key import Node, PoolKey
from proxy.session.ports.pool_waiter import Waiter
from proxy.session.ports.ports import AwaitedReply
from proxy.session.state import DatabaseSwitch


@dataclass(slots=True)
class JudgedCommand:
    """A judged command and its bytes, as handlers of commands about the connection get it: what Redis says of such a
    command is for the handler, so rules can neither edit the reply nor send commands along."""

    command: Command
    raw: bytes


@dataclass(slots=True)
class BlockedCommand:
    """A command that blocks, with a cluster upstream: since when, and when it was sent last. What a node refuses
    because its slot has left is sent again: behind ASKING to the node that ASK names, ``asks``. Where that goes on for
    too long, ``error`` is the reply."""

    since: float
    sent_at: float = 0.0
    phase: Literal["waits", "sent", "refused", "answered"] = "waits"
    asks: Node | None = None
    error: bytes = b""


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
    blocked: BlockedCommand | None = None
    """With a cluster upstream: a command that blocks, once it has been sent."""
    instead_of: Command | None = None
    """The client's own command, where a rule has rewritten it."""
    change: Change | None = None
    """With a cluster upstream: what a command about subscriptions changes, once nodes have been asked."""
    ping: Ping | None = None
    """With a cluster upstream: a PING of a subscribed RESP2 client, once it has been sent."""
    hides_nodes: bool = False
    """With a cluster upstream: whether ``edit`` already removes the addresses of nodes."""
    terms: ReplicaTerms | None = None
    """By which terms a replica may answer it."""
    wrapper: Command | None = None
    """The KEYRAIL NODE that carried it, if one did."""
    asked: bool = False
    """Whether a rule has asked Redis about it."""
    awaited_reply: AwaitedReply | None = None
    """A read that has waited for its reply to come into memory."""
    announced: bool = False
    """Whether it makes Redis hold writes back, and everybody knows."""
    holds: bool = True
    """Whether it holds its keys in memory, once it is sent: not where a rule only counts what it would answer."""


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


class ScriptSearch(Waiter):
    """The other workers are asked about these scripts until it is ``over``."""

    def __init__(self, client: Waiter, scripts: frozenset[FactKey]) -> None:
        self._client = client
        self.scripts = scripts
        self.over = False

    @property
    def gone(self) -> bool:
        """Whether its client has left."""
        return self._client.gone

    def arrived(self) -> None:
        """All have answered."""
        self.over = True
        self._client.arrived()


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
