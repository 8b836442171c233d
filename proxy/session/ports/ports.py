"""The interface between a session and the network side, and the values that both use."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from proxy.commands.command import Command
from proxy.commands.table import Lane
from proxy.hotpath.cache.cached_reads import CachedReads
from proxy.hotpath.counting.call_counts import CallCounts
from proxy.hotpath.intake.command_sender import CommandSender
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.policy.apps import Caller
from proxy.policy.compile import CompiledPolicy
from proxy.policy.decision import Hit
from proxy.rules.scripts.own_keys import OwnKeys
from proxy.rules.shared_state import FactKey
from proxy.session.ports.client import ClientTransport, EffectivePolicy, ServedClient
from proxy.session.ports.counted_keys import CountedKeys
from proxy.session.ports.info_query import InfoQuery
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.ports.login_port import LoginPort
from proxy.session.ports.node_port import KnownScriptsPort, NodePort, ReplicaPort
from proxy.session.ports.open_trace import TracePort
from proxy.session.ports.pause_port import PausePort
from proxy.session.ports.pool_key import Node, PoolKey
from proxy.session.ports.pool_waiter import PoolWaiter, UpstreamWait, Waiter
from proxy.wire.request import RequestLimits

CommandName: TypeAlias = tuple[bytes, ...]
"""The words of a command's name, each by itself and in capitals: one, or a container's and its subcommand's."""
Questions: TypeAlias = Sequence[Sequence[bytes]]
"""Commands of Keyrail's own, asked together."""


class PoolPort(Protocol):
    """Connections to Redis: shared ones, and those of one client alone."""

    def shared(self, key: PoolKey, lane: Lane) -> UpstreamPipeline | None:
        """A shared upstream that takes commands now."""

    def ready(self, key: PoolKey) -> UpstreamPipeline | None:
        """A shared upstream for plain commands that takes commands now; none is opened for this."""

    def has_pool(self, key: PoolKey) -> bool:
        """Whether such a pool has, or can open, connections."""

    def refusal(self, key: PoolKey) -> str:
        """The error with which the pool's node has refused the login of its user; empty where it has not."""

    def lacking_database(self, waiter: PoolWaiter, number: int) -> bytes | None:
        """The error of a node of a cluster that lacks this database; empty where all have it, None while they are
        asked: ``arrived`` is called then."""

    def await_shared(self, waiter: PoolWaiter, key: PoolKey, lane: Lane) -> UpstreamWait:
        """Call ``arrived`` when ``shared`` may answer, or ``close`` when it will not in time."""

    def private(self, key: PoolKey) -> PrivatePipeline | None:
        """An idle upstream for one client alone."""

    def await_private(self, waiter: PoolWaiter, key: PoolKey) -> UpstreamWait:
        """Call ``arrived`` when ``private`` may answer, or ``close`` when it will not in time."""

    def private_anywhere(self, key: PoolKey) -> PrivatePipeline | None:
        """An idle upstream of the pool's user, of whatever database and protocol, for one command that has none."""

    def private_alike(self, key: PoolKey) -> PrivatePipeline | None:
        """The same for a command whose reply depends on the protocol."""

    def opens_private(self, key: PoolKey) -> bool:
        """Whether one more private upstream of this pool can be opened now."""

    def await_private_anywhere(self, waiter: PoolWaiter, key: PoolKey) -> UpstreamWait:
        """Call ``arrived`` when ``private_anywhere`` or ``private_alike`` may answer, or ``close`` when they will not
        in time."""

    def release(self, upstream: PrivatePipeline) -> None:
        """Take back a private upstream that has no state of its client left."""

    def discard(self, upstream: UpstreamPipeline) -> None:
        """Close an upstream at once: an unfinished command on it must not run."""

    def close_gracefully(self, upstream: UpstreamPipeline) -> None:
        """Close an upstream whose state is not wanted.

        What was sent on it still runs, as after a client's close, and so do the hidden commands that follow from that.
        """

    def retire(self, upstream: UpstreamPipeline) -> None:
        """Give a shared upstream no more work, and close it when it has no pending replies."""

    def entered(self, client: ServedClient) -> None:
        """The client belongs to another pool now: it may have another user."""

    def relies_on_process(self, waiter: PoolWaiter) -> None:
        """This client counts on the memory of the server process: it is closed when that is another one."""

    def await_user(self, waiter: PoolWaiter, user: str) -> bool:
        """Whether that is being found out now; ``arrived`` is called when it has been."""


class CapabilityPort(Protocol):
    """The capabilities of the Redis behind the route, and of its users."""

    def limits(self, authenticated: bool, must_log_in: bool = False) -> RequestLimits:
        """What a client may announce; less before a login, where the engine or the listener asks for one."""

    def names_protocol_in_hello(self) -> bool:
        """Whether the engine's error for HELLO before a login says ``HELLO <proto> AUTH``, not ``HELLO AUTH``."""

    def empty_request_counts(self) -> bool:
        """Whether a request without arguments ends what holds for one command: SKIP, ASKING, CACHING."""

    def knows_user(self, user: str) -> bool:
        """Whether it is known what this user, as whom some client has logged in, may run."""

    def keeps_names(self, key: PoolKey) -> bool:
        """Whether CLIENT SETNAME and its relatives are answered here: not for users who may not use them."""

    def unauthenticated(self, key: PoolKey) -> bool:
        """Whether nobody has logged in on this pool's connections, although Redis asks for a password."""

    def any_command_covers(self) -> bool:
        """Whether any command moves its connection's replication offset, as WAIT sees it, up to the server's."""

    def answers_tracking_once(self) -> bool:
        """Whether the engine answers CLIENT TRACKING once, also if its prefixes overlap."""

    def looks_up_subcommands(self) -> bool:
        """Whether the engine refuses an unknown subcommand before all else, in MULTI, too: not Redis 6.2."""

    def is_valkey(self) -> bool:
        """Whether the engine is Valkey, as far as that is known."""

    def names_libraries(self) -> bool:
        """Whether the engine knows CLIENT SETINFO."""

    def lacks(self, name: CommandName) -> bool:
        """Whether the engine has said that it does not know this command."""

    def has(self, name: CommandName) -> None:
        """The engine has run this command, although it did not know it before."""

    def probing(self, name: CommandName) -> bool:
        """Whether some session is asking the engine about this command now, or waits for an upstream to ask on."""

    def await_probe(self, waiter: PoolWaiter, name: CommandName) -> None:
        """Call ``arrived`` when that session knows."""

    def begin_probe(self, waiter: PoolWaiter, name: CommandName) -> None:
        """This session is going to ask; if there is no upstream to be had, those who wait for it are closed too."""

    def end_probe(self, name: CommandName, lacking: bool) -> None:
        """The engine has answered, or the session has ended without an answer."""


class PolicyPort(Protocol):
    """The policy in force."""

    def effective_policy(self, key: PoolKey, caller: Caller) -> EffectivePolicy:
        """The policy in force for a client of this pool."""

    def calls_of(self, client: ServedClient) -> CallCounts:
        """The counters of the commands of this client, and of all that evidence does not tell from it."""

    def rehearsal(self, key: PoolKey, caller: Caller) -> CompiledPolicy:
        """The policy in force for a client of this pool, to try commands on: nothing comes of it."""


class ReportPort(Protocol):
    """Counts and reports the hits of rules."""

    def report(self, hits: Sequence[Hit], command: Command, client: ServedClient) -> None:
        """Count the hits of a command, and log those that are to be logged."""

    def may_inspect(self, hits: Sequence[Hit], app: str) -> bool:
        """Whether the next command that a plan refuses by itself is to be shown to ``inspect``."""

    def inspect(self, hits: Sequence[Hit], command: Command, client: ServedClient) -> None:
        """See a command that a plan has refused by itself, and has counted."""


class QueryPort(Protocol):
    """Keyrail's own questions to Redis."""

    def ask(self, key: PoolKey, questions: Questions, answered: Callable[[Sequence[bytes] | None], None]) -> None:
        """Ask Redis on a connection of Keyrail's own.

        ``answered`` gets the reply frames, or None where there are none to be had; perhaps before this returns.
        """


class ScriptPort(Protocol):
    """The scripts that other workers know."""

    def find(self, waiter: Waiter, keys: frozenset[FactKey]) -> bool:
        """Ask the other workers what these scripts and functions call; ``arrived`` is called when they have been asked.

        False where there is nobody to ask, or nothing.
        """


class SupervisorPort(Protocol):
    """Questions to the supervisor."""

    def group_info(self, waiter: PoolWaiter, query: InfoQuery) -> dict[str, Any] | None:
        """What is known of the whole process group, nothing where nobody says; None: ``arrived`` is called then."""


class RoutePort(Protocol):
    """The route itself. Without ``pooling`` every client has an upstream of its own. ``query_limit`` bounds the bytes
    of a command that is not whole."""

    pooling: bool
    query_limit: int

    def now(self) -> float:
        """Seconds since the epoch."""

    def chance(self) -> float:
        """A random number in [0, 1)."""

    def has_left(self, transport: ClientTransport | None, waited: float) -> bool:
        """Whether the client of something that has waited for so many seconds has left."""

    def after(self, seconds: float, act: Callable[[], None]) -> Callable[[], None]:
        """Call ``act`` when that time is over, unless what this returns is called before."""

    def protocol_error(self, code: int, byte: int) -> bytes:
        """The engine's own words for a protocol error, as a reply."""

    def report_fault(self) -> None:
        """Report the exception that is being handled: the session in which it was raised is closed."""

    def count(self, event: str) -> None:
        """Count an event for the metrics."""

    def count_error(self, error: bytes) -> None:
        """Count an error reply of Keyrail's own."""

    def note_user_change(self) -> None:
        """Who may log in may have changed: what Redis has said of logins before counts no more, in any worker."""


class AwaitedReply:
    """A reply that is on its way into memory; ``over``: it has come, or nobody waits any longer."""

    over = False


class CachePort(Protocol):
    """The local cache. ``scripts`` tell which keys a script can use."""

    scripts: OwnKeys

    def reads_of(self, client: ServedClient, before: CachedReads | None) -> CachedReads | None:
        """The use that this client has of the cache of its database from now on, in place of what it had before; None
        while no rule of the policy is about a cache."""

    def seek(
        self, reads: CachedReads, command: Command, request: bytes, waiter: ServedClient, before: AwaitedReply | None
    ) -> tuple[AwaitedReply | None, bool]:
        """Fetch the reply to a read that is not in memory. Where ``waiter`` should wait for it, its ``arrived`` is
        called when that is over; it has waited ``before``. Otherwise Redis answers; then the second value says whether
        the read holds its key."""

    def hold_back_untold(
        self, reads: CachedReads, sender: CommandSender, upstream: UpstreamPipeline, *, relayed: bool
    ) -> None:
        """A client's command has been sent last on this connection, and Redis will not tell what it changes: answer
        nothing from memory until it has run, nor from that of databases that are read for the first time meanwhile.
        ``relayed``: nobody can tell the replies on the connection apart."""

    def look_again(self, sender: CommandSender) -> None:
        """Replies to this client have come: its commands may not hold keys any more that others wait for."""

    def sent_elsewhere(self, node: Node) -> None:
        """With a cluster upstream: this node has answered a client with MOVED, ASK, TRYAGAIN or CLUSTERDOWN."""


@dataclass(frozen=True, slots=True)
class Ports:
    """All that a session asks of the network side, by subject."""

    route: RoutePort
    pools: PoolPort
    capabilities: CapabilityPort
    policies: PolicyPort
    reports: ReportPort
    traces: TracePort
    queries: QueryPort
    scripts: ScriptPort
    supervisor: SupervisorPort
    logins: LoginPort
    nodes: NodePort | None = None
    """Of a cluster."""
    known_scripts: KnownScriptsPort | None = None
    """Of a cluster."""
    caches: CachePort | None = None
    pauses: PausePort | None = None
    replicas: ReplicaPort | None = None
    """Of the primaries."""
    counted: CountedKeys = field(default_factory=CountedKeys)
