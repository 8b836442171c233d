"""The typed messages between the supervisor and a worker; ``requests`` carries them.

    supervisor asks a worker                       its reply
    Prepare       policies of a new generation     the problem with them, or None: ready
    Commit        use that generation              None: it judges all later commands
    Switch        turn the kill switch             None: it is on, or off
    RecallScript  the commands that a script calls those commands, or None: not seen by this worker
    HoldWrites    Redis is about to hold writes    nothing: those under way have been answered
    HoldTenant    a tenant's keys will be deleted  nothing: its writes under way have been answered; or why not
    EndHold       they have been                   nothing: its writes were held until now; or why not

    a worker asks the supervisor                   its reply
    GroupInfo     a client's query about the group the answer
    FindScript    the commands that a script calls those commands, or None: no other worker knows
    ShareLimits   what clients want of limits      the worker's shares of the limits
    FindPlans     plans of some clients            the parts that it lacks, or None: not in force any more
    FindStored    what is stored, for rules        what is known, from scans and all workers
    HoldWrites, HoldTenant, EndHold                nothing: each other worker has done it; or what one has said

    supervisor tells a worker                      a worker tells the supervisor
    Start   the settings, policies and sockets     Serving        every listener accepts
    NameNodes  what to call a cluster's nodes      Unfit          this route must not be served, and why: the group ends
    LogFrom  the least urgent lines to write       WorkerReport   figures, every second and before the end
    Drain   finish, then end                       News           with each report: violations, changed evidence
    SeenScripts  what another one has told         SeenScripts    with each report: scripts that are new
    WritesHeld  Redis has begun to hold writes     WritesHeld     the same
                                                   SeenServers    the servers that it has found, when they change
                                                   TrafficReport  with each report: the traffic, second by second

A successor (SIGUSR2) starts its own workers, so both ends of a channel always have the same version.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from proxy.net.config.settings import LogLevel, Settings
from proxy.net.policy.plan_compiler import WantedPlans
from proxy.net.policy.verdicts import VerdictUpdate
from proxy.net.topology.known_scripts import ScriptNews
from proxy.net.topology.topology import KnownServer
from proxy.policy.model import Policy
from proxy.policy.plan_tables import NewParts
from proxy.rules.shared_state import Fact, FactKey, Stored, Written
from proxy.server.leases import Demands, Leases
from proxy.server.process_figures import ProcessFigures
from proxy.server.requests import Notification, Packed, ProcessRequest
from proxy.session.ports.info_query import InfoQuery
from proxy.traffic.interval_stats import IntervalStats


@dataclass(frozen=True, slots=True)
class ListenerSocket:
    """A listening socket that is handed over to all workers: its listener, by position."""

    route: int
    listener: int


# Requests to a worker


@dataclass(frozen=True, slots=True)
class Prepare(ProcessRequest[str | None]):
    """Get ready for the policies of a new generation, and keep using the old ones; or reply with the problem.

    The supervisor has their plans under the number `edition`. Unlike the generation, it is used once, even if the
    policies do not come into force.
    """

    seconds: ClassVar[float] = 30.0  # for large policies and many users and apps, while the worker serves
    policies: Packed[tuple[Policy, ...]]
    generation: int
    edition: int


@dataclass(frozen=True, slots=True)
class Commit(ProcessRequest[None]):
    """Use the last prepared policies for every command that is read after the reply."""

    seconds: ClassVar[float] = 10.0
    generation: int


@dataclass(frozen=True, slots=True)
class Switch(ProcessRequest[None]):
    """For every command that is read after the reply, enforce only locked rules, or all enforced rules again."""

    seconds: ClassVar[float] = 10.0
    paused: bool


@dataclass(frozen=True, slots=True)
class RecallScript(ProcessRequest[Fact | None]):
    """Ask a worker which commands a script or function calls."""

    route: int
    key: FactKey


# Requests to the supervisor


@dataclass(frozen=True, slots=True)
class GroupInfo(ProcessRequest[dict[str, Any]]):
    """Ask for a client's query about the whole process group."""

    route: int
    query: InfoQuery


@dataclass(frozen=True, slots=True)
class FindScript(ProcessRequest[Fact | None]):
    """Ask all other workers which commands a script or function calls."""

    route: int
    key: FactKey


@dataclass(frozen=True, slots=True)
class ShareLimits(ProcessRequest[tuple[Leases, ...]]):
    """What the worker's clients want of each route's limits; the reply has the worker's shares."""

    routes: tuple[Demands, ...]


@dataclass(frozen=True, slots=True)
class FindPlans(ProcessRequest[Packed[NewParts] | None]):
    """Send plans of a route's policy."""

    seconds: ClassVar[float] = 20.0  # there may be many apps
    route: int
    edition: int
    wanted: WantedPlans


@dataclass(frozen=True, slots=True)
class FindStored(ProcessRequest[tuple[Mapping[str, Stored], ...]]):
    """What the worker's clients have written since its last request, by route, rule and app; the reply has what is
    known of all workers, by route and rule."""

    routes: tuple[Mapping[str, Mapping[str, Written]], ...]


# Requests both ways


class ForOthers(ProcessRequest[str]):
    """What a worker asks of all others: the supervisor passes it on. The reply is a problem; empty if there is none."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class HoldWrites(ForOthers):
    """Redis is about to hold writes back for a client of one worker: let none of the others send more of them on shared
    connections; the reply comes when those under way have been answered."""

    seconds: ClassVar[float] = 1.0
    route: int


@dataclass(frozen=True, slots=True)
class HoldTenant(ForOthers):
    """A worker is about to delete a tenant's keys: hold what the tenant's clients write, for `at_most` seconds; the
    reply comes when commands under way have been answered."""

    seconds: ClassVar[float] = 5.0  # which takes up to 3
    route: int
    token: str
    prefix: bytes
    at_most: float


@dataclass(frozen=True, slots=True)
class EndHold(ForOthers):
    """It has deleted them: hold those writes no more; the reply is a problem if they were not held until now."""

    route: int
    token: str
    prefix: bytes


# Notifications to a worker


@dataclass(frozen=True, slots=True)
class Start(Notification):
    """Serve; the first message. ``policies`` has one policy for each of the settings' routes. The ``sockets`` were
    handed over before, behind the memory that workers share, in this order (``descriptors``)."""

    settings: Settings
    policies: tuple[Policy, ...]
    generation: int
    edition: int
    number: int
    sockets: tuple[ListenerSocket, ...]
    paused: bool
    aliases: tuple[dict[str, str], ...]
    scripts: tuple[ScriptNews, ...]
    servers: tuple[Sequence[KnownServer], ...]


@dataclass(frozen=True, slots=True)
class NameNodes(Notification):
    """What all workers call the nodes of a route's cluster, by id."""

    route: int
    aliases: dict[str, str]


@dataclass(frozen=True, slots=True)
class Drain(Notification):
    """Stop accepting, finish pending replies within ``seconds``, end."""

    seconds: float


@dataclass(frozen=True, slots=True)
class LogFrom(Notification):
    """Write only lines of this level or a more urgent one."""

    level: LogLevel


# Notifications both ways


@dataclass(frozen=True, slots=True)
class SeenScripts(Notification):
    """What one worker has seen of scripts, before each route's cluster."""

    routes: tuple[ScriptNews, ...]


@dataclass(frozen=True, slots=True)
class WritesHeld(Notification):
    """Redis has answered a client of one worker that it holds writes back: the others find out for how long."""

    route: int


# Notifications to the supervisor


@dataclass(frozen=True, slots=True)
class SeenServers(Notification):
    """The servers of each route, as this worker has found them: what a worker that takes its place begins with."""

    routes: tuple[Sequence[KnownServer], ...]


@dataclass(frozen=True, slots=True)
class Serving(Notification):
    """Every listener accepts connections."""


@dataclass(frozen=True, slots=True)
class Unfit(Notification):
    """The route cannot be served as it is configured; sent only at the start."""

    route: int
    reason: str


@dataclass(frozen=True, slots=True)
class TrafficReport(Notification):
    """The intervals of each route, second by second, since the last report."""

    routes: tuple[list[IntervalStats], ...]


@dataclass(frozen=True, slots=True)
class WorkerReport(Notification):
    """Each route's snapshot, and how busy the process is."""

    routes: tuple[dict[str, Any], ...]
    process: ProcessFigures


@dataclass(frozen=True, slots=True)
class News(Notification):
    """The findings of each route's rules since the last report."""

    routes: tuple[VerdictUpdate, ...]


WorkerOrder: TypeAlias = Prepare | Commit | Switch
"""The requests that change how a worker judges. A worker follows them one after another, in order;
but it turns the kill switch at once, also while it prepares."""
WorkerRequest: TypeAlias = WorkerOrder | RecallScript | HoldWrites | HoldTenant | EndHold
WorkerNotification: TypeAlias = NameNodes | LogFrom | Drain | SeenScripts | WritesHeld
SupervisorRequest: TypeAlias = GroupInfo | FindScript | ShareLimits | FindPlans | FindStored | ForOthers
SupervisorNotification: TypeAlias = (
    Serving | Unfit | WorkerReport | News | SeenScripts | SeenServers | TrafficReport | WritesHeld
)
