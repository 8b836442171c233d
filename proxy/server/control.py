"""What the supervisor and a worker say to each other, over a private socket pair.

    supervisor -> worker                      worker -> supervisor
    Start      what to serve, on which fds    Serving   every listener accepts
                                              Unfit     this route must not be served, and why: the group ends
    Prepare    policies of a new generation   Prepared  ready for it, or why not
    Commit     put it in force                Committed it is: what comes from now on is judged by it
    Switch     the kill switch is on, or off  Switched  it is
    Ask        the busiest keys of a window   Told      them
    Informed   what a client asked            Inquire   what a client asks about the whole group
    Leased     its shares of limits           Wanted    what could be used of them
    Recall     what does a script call        Seek      what does a script call: the other workers may know
    Found      what it calls                  Recalled  what it calls, if that is known
    Drain      finish, then end               Report    figures, every second and as the last word
                                              News      with each report: violations, changed evidence
                                              Watched   with each report: what was done, second by second

Messages are pickled, with their length in front. So a worker that replaces a dead one gets the very policies in force,
not what their files have become since; and pickle is safe here, because whoever could write to this socket already runs
as this user inside this process group.
"""

import asyncio
import pickle
import socket
import struct
from dataclasses import dataclass
from typing import Any

from proxy.net.settings import Settings
from proxy.net.verdicts import Seen
from proxy.policy import Policy
from proxy.rules.script_memory import ScriptKey
from proxy.rules.script_text import ScriptCalls
from proxy.server.leases import Demands, Leases
from proxy.session.topic import Topic
from proxy.traffic.digest import Digest
from proxy.traffic.merge import Answer

_HEADER = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class ListenerSocket:
    """A listening socket that a worker has inherited: its listener, by position, and the file descriptor."""

    route: int
    listener: int
    fd: int


@dataclass(frozen=True, slots=True)
class Start:
    """Serve. ``policies`` has one policy for each of the settings' routes."""

    settings: Settings
    policies: tuple[Policy, ...]
    generation: int
    sockets: tuple[ListenerSocket, ...]
    paused: bool


@dataclass(frozen=True, slots=True)
class Prepare:
    """Make ready for the policies of a new generation, and keep using the old ones."""

    policies: tuple[Policy, ...]
    generation: int


@dataclass(frozen=True, slots=True)
class Commit:
    """Use the policies prepared last."""

    generation: int


@dataclass(frozen=True, slots=True)
class Switch:
    """Enforce locked rules alone from now on, or all that the policy says again."""

    paused: bool


@dataclass(frozen=True, slots=True)
class Ask:
    """Tell the busiest keys of a route in the last ``window`` seconds."""

    question: int
    route: int
    window: int


@dataclass(frozen=True, slots=True)
class Informed:
    """The answer to a worker's question: what there is to know of a route and ``topic``."""

    route: int
    topic: Topic
    answer: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Inquire:
    """A client wants to know something of the whole process group."""

    route: int
    topic: Topic


@dataclass(frozen=True, slots=True)
class Leased:
    """The worker's shares of each route's limits."""

    routes: tuple[Leases, ...]


@dataclass(frozen=True, slots=True)
class Recall:
    """Say what a script or function calls, if it has been seen."""

    question: int
    route: int
    key: ScriptKey


@dataclass(frozen=True, slots=True)
class Found:
    """All other workers have been asked; None if nobody has seen it."""

    route: int
    key: ScriptKey
    calls: ScriptCalls | None


@dataclass(frozen=True, slots=True)
class Drain:
    """Stop accepting, finish what is owed within ``seconds``, end."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Serving:
    """Every listener accepts connections."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """The route cannot be served as it is configured; only said at start."""

    route: int
    reason: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """Ready for a generation; or not, with the reason."""

    generation: int
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """Every command that this worker reads from now on is judged by this generation."""

    generation: int


@dataclass(frozen=True, slots=True)
class Switched:
    """Every command that this worker reads from now on is judged so."""

    paused: bool


@dataclass(frozen=True, slots=True)
class Seek:
    """Ask the other workers what a script or function calls."""

    route: int
    key: ScriptKey


@dataclass(frozen=True, slots=True)
class Recalled:
    """What this worker has seen."""

    question: int
    calls: ScriptCalls | None


@dataclass(frozen=True, slots=True)
class Told:
    """The answer to a question."""

    question: int
    answer: Answer


@dataclass(frozen=True, slots=True)
class Watched:
    """What each route did, second by second, since the last time."""

    routes: tuple[list[Digest], ...]


@dataclass(frozen=True, slots=True)
class Report:
    """Each route's snapshot."""

    routes: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class News:
    """What each route's rules said since the last report."""

    routes: tuple[Seen, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the worker could have used of each route's limits lately."""

    routes: tuple[Demands, ...]


ToWorker = Start | Prepare | Commit | Switch | Ask | Informed | Leased | Recall | Found | Drain
FromWorker = (
    Serving
    | Unfit
    | Prepared
    | Committed
    | Switched
    | Told
    | Report
    | News
    | Watched
    | Inquire
    | Wanted
    | Seek
    | Recalled
)


class Channel:
    """One end of the socket pair."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> "Channel":
        """Make a channel of one end of a socket pair; it now belongs to the channel."""
        return cls(*await asyncio.open_unix_connection(sock=end))

    def send(self, message: ToWorker | FromWorker) -> None:
        """Send a message; it is lost if the other end is gone, which ``receive`` tells."""
        if self._writer.is_closing():  # uvloop raises where asyncio's own loop does nothing
            return
        body = pickle.dumps(message)
        self._writer.write(_HEADER.pack(len(body)) + body)

    async def receive(self) -> Any:
        """Return the next message; None when the other end is gone."""
        try:
            (length,) = _HEADER.unpack(await self._reader.readexactly(_HEADER.size))
            return pickle.loads(await self._reader.readexactly(length))  # noqa: S301  the top of this file says why it is safe
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def close(self) -> None:
        """Send what is left and close."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            pass
