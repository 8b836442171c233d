"""The verdicts of rules about a command: a small, closed set, matched exhaustively."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from proxy.commands.spec import Spec
from proxy.hotpath.plan.replica_reads import ReplicaTerms
from proxy.hotpath.upstream.late_replies import LateEdit, Making, Portions
from proxy.tenants.replies import ErrorEdit

ReplyEdit: TypeAlias = Callable[[bytes], bytes]
"""Maps one whole reply frame (with its CRLF) to the frame that the client gets instead. Pure."""


def chained(first: ReplyEdit | None, then: ReplyEdit | None) -> ReplyEdit | None:
    """Both edits, one after the other; the first one gets Redis's reply."""
    if first is None or then is None:
        return first or then
    if isinstance(first, ErrorEdit) and isinstance(then, LateEdit):
        return _BehindErrors(first, then)
    return lambda frame: then(first(frame))


class _BehindErrors(LateEdit):
    """Both edits, of which the first one changes errors alone."""

    __slots__ = ("_errors", "_then", "opening")

    def __init__(self, errors: ErrorEdit, then: LateEdit) -> None:
        self._errors = errors
        self._then = then
        self.opening = then.opening

    @property
    def portions(self) -> Portions:
        return self._then.portions

    def passes(self, head: bytes) -> int:
        return self._then.passes(head)

    def making(self, pieces: list[bytes]) -> Making:
        if pieces[0].startswith(b"-"):
            pieces = [self._errors(b"".join(pieces))]
        return self._then.making(pieces)


@dataclass(frozen=True, slots=True)
class Pass:
    """The command goes on as it is.

    `skipped` says why a rewrite was not made; empty if there was nothing to rewrite. `would_refuse` is the refusal that
    the command would get if all rules were enforced: an enforced rule about scripts may apply a rule that is only
    audited. It is counted as audited.
    """

    skipped: str = ""
    would_refuse: "Refuse | None" = None


# Not frozen: each judged command may have one, and a frozen dataclass takes three times as long to construct.
@dataclass(slots=True)
class Rewrite:
    """The command goes on as `argv`, and `edit`, if any, is applied to its reply.

    A streamed argument (``Command.streamed``) keeps its index; its bytes in `argv` are not sent. `spec` is the command
    of `argv`, if the rule knows it, which saves a look-up.
    """

    argv: list[bytes]
    edit: ReplyEdit | None = None
    spec: Spec | None = field(default=None, compare=False)


@dataclass(slots=True)
class Refuse:
    """The command does not reach Redis; `error` is the whole reply line, CRLF included.

    With `close` the client is then disconnected.
    """

    error: bytes
    close: bool = False


@dataclass(slots=True)
class Answer:
    """The command does not reach Redis, and the client gets `reply`, a whole frame. Never inside MULTI."""

    reply: bytes


End: TypeAlias = Pass | Rewrite | Refuse | Answer
"""The verdicts that a procedure can end with."""

Steps: TypeAlias = Generator[Sequence[Sequence[bytes]], Sequence[bytes], End]
"""Yields commands to send together, gets their reply frames, returns its end. Pure except for these replies."""


@dataclass(slots=True)
class Procedure:
    """Keyrail asks Redis itself before it decides, while only this client waits.

    `steps` yields the commands, which run on Keyrail's own connection, as the client's user, in its database, for at
    most `seconds`. `otherwise` is the end if that is impossible or takes too long; it gets the reason as text ("it is
    inside MULTI"). If not `waits`, the command is forwarded meanwhile, and the end is only counted.
    """

    steps: Callable[[], Steps]
    seconds: float
    otherwise: Callable[[str], Pass | Refuse]
    waits: bool = True


class Renewal(list[bytes]):
    """A hidden command that may change ``key`` although the client's command has not. If a client watches the key, its
    EXEC would fail, so the hidden command waits until the watch ends. Of several with the same ``option``, the last
    one is enough."""

    def __init__(self, key: bytes, option: bytes, argv: Sequence[bytes]) -> None:
        super().__init__(argv)
        self.key = key
        self.option = option


Conclusion: TypeAlias = Callable[[bytes, Sequence[bytes]], Sequence[Sequence[bytes]]]
"""Returns the hidden commands that follow, from the first line of the reply to the client's command and of each reply
to the hidden commands before and after it. Pure; lines have their CRLF. Called after an error only with
``Surround.after_error``."""


@dataclass(slots=True)
class Surround:
    """The command goes on as it is, and its reply decides which hidden commands follow.

    `before` and `after` are hidden commands that run right before and after it, atomically (between WATCH and EXEC: in
    the same write), if its own reply is no proof. The commands that `conclude` returns are sent when the reply has
    arrived. The client sees none of their replies. In some states no hidden command is possible (no reply will come,
    the command may block, the client tracks keys and reads). Then the command gets `otherwise`, or goes alone and is
    counted as skipped. Only for commands that any connection can run, and for blocking ones. With `after_error`,
    `conclude` is called after errors, too: the writes of a failed script stay. `about` describes the hidden commands as
    text. A `notice`, if any, gets the first line as the client gets it, and its result is counted.
    """

    conclude: Conclusion
    about: str
    before: Sequence[Sequence[bytes]] = ()
    after: Sequence[Sequence[bytes]] = ()
    otherwise: Refuse | None = None
    notice: Callable[[bytes], str] | None = None
    after_error: bool = False


@dataclass(slots=True)
class InspectReply:
    """The command goes on as it is, and `at` gets the first line of its reply, in every mode of the rule.

    The text that `at` returns is counted with the rule, unless it is empty. `at` is not called for errors, nor if no
    reply comes or the client tracks keys.
    """

    at: Callable[[bytes], str]


@dataclass(frozen=True, slots=True)
class EditReply:
    """The command goes on as it is, and `edit` is applied to its reply, in every mode of the rule. `about` says as text
    what the edit does."""

    edit: ReplyEdit
    about: str


@dataclass(frozen=True, slots=True)
class FromReplica:
    """The command goes on as it is, and a replica within these `terms` may answer it."""

    terms: ReplicaTerms


Verdict: TypeAlias = End | Procedure | InspectReply | EditReply | Surround | FromReplica

PASS = Pass()


def closes(verdict: Verdict) -> bool:
    """Whether the client is then disconnected."""
    return type(verdict) is Refuse and verdict.close
