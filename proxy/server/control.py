"""What the supervisor and a worker say to each other: typed messages, which ``requests`` carries.

    supervisor asks a worker                       its reply
    Prepare       policies of a new generation     what is wrong with them, or None: ready
    Commit        put it in force                  None: what comes from now on is judged by it
    Switch        turn the kill switch             None: it is on, or off
    RecallScript  what does a script call          what it calls, or None: not seen here

    a worker asks the supervisor                   its reply
    GroupInfo     what a client asks about all     the answer
    FindScript    what does a script call          what it calls, or None: no other worker knows
    ShareLimits   what could be used of limits     its shares of them

    supervisor tells a worker                      a worker tells the supervisor
    Start   what to serve, on which fds            Serving  every listener accepts
    Cover   accept for missing workers             Unfit    this route must not be served, and why: the group ends
    Drain   finish, then end                       Report   figures, every second and as the last word
                                                   News     with each report: violations, changed evidence
                                                   Watched  with each report: what was done, second by second

A successor (SIGUSR2) starts workers of its own: both ends of a channel are always the same version.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from proxy.net.settings import Settings
from proxy.net.verdicts import VerdictUpdate
from proxy.policy.model import Policy
from proxy.rules.shared_state import Fact, FactKey
from proxy.server.accept_sharing import SharingFiles
from proxy.server.leases import Demands, Leases
from proxy.server.process_figures import ProcessFigures
from proxy.server.requests import Notification, Packed, ProcessRequest
from proxy.session.info_query import InfoQuery
from proxy.traffic.interval_stats import IntervalStats


@dataclass(frozen=True, slots=True)
class ListenerSocket:
    """A listening socket that a worker has inherited: whose it is, its listener, by position, the file descriptor."""

    worker: int
    route: int
    listener: int
    fd: int


# Requests to a worker


@dataclass(frozen=True, slots=True)
class Prepare(ProcessRequest[str | None]):
    """Make ready for the policies of a new generation, and keep using the old ones; or reply what is wrong."""

    seconds: ClassVar[float] = 15.0  # large policies, many users and apps, and a worker that serves meanwhile
    policies: Packed[tuple[Policy, ...]]
    generation: int


@dataclass(frozen=True, slots=True)
class Commit(ProcessRequest[None]):
    """Use the policies prepared last for every command that is read after the reply."""

    seconds: ClassVar[float] = 10.0
    generation: int


@dataclass(frozen=True, slots=True)
class Switch(ProcessRequest[None]):
    """Enforce locked rules alone for every command that is read after the reply, or all that the policy says again."""

    seconds: ClassVar[float] = 10.0
    paused: bool


@dataclass(frozen=True, slots=True)
class RecallScript(ProcessRequest[Fact | None]):
    """Say what a script or function calls, if it has been seen."""

    route: int
    key: FactKey


# Requests to the supervisor


@dataclass(frozen=True, slots=True)
class GroupInfo(ProcessRequest[dict[str, Any]]):
    """A client wants to know something of the whole process group."""

    route: int
    query: InfoQuery


@dataclass(frozen=True, slots=True)
class FindScript(ProcessRequest[Fact | None]):
    """Ask all other workers what a script or function calls."""

    route: int
    key: FactKey


@dataclass(frozen=True, slots=True)
class ShareLimits(ProcessRequest[tuple[Leases, ...]]):
    """What the worker could have used of each route's limits lately; the reply is its shares of them."""

    routes: tuple[Demands, ...]


# Notifications to a worker


@dataclass(frozen=True, slots=True)
class Start(Notification):
    """Serve; the first message. ``policies`` has one policy for each of the settings' routes."""

    settings: Settings
    policies: tuple[Policy, ...]
    generation: int
    number: int
    sockets: tuple[ListenerSocket, ...]
    paused: bool
    sharing: SharingFiles | None = None


@dataclass(frozen=True, slots=True)
class Cover(Notification):
    """Accept connections for these workers as well, and for no others."""

    workers: frozenset[int]


@dataclass(frozen=True, slots=True)
class Drain(Notification):
    """Stop accepting, finish pending replies within ``seconds``, end."""

    seconds: float


# Notifications to the supervisor


@dataclass(frozen=True, slots=True)
class Serving(Notification):
    """Every listener accepts connections."""


@dataclass(frozen=True, slots=True)
class Unfit(Notification):
    """The route cannot be served as it is configured; only said at start."""

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
"""What changes how a worker judges: followed one after another, in the order in which they were given."""
WorkerRequest: TypeAlias = WorkerOrder | RecallScript
WorkerNotification: TypeAlias = Cover | Drain
SupervisorRequest: TypeAlias = GroupInfo | FindScript | ShareLimits
SupervisorNotification: TypeAlias = Serving | Unfit | WorkerReport | News | TrafficReport
