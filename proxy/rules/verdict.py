"""What a rule may say about a command: a small, closed set, so that whoever acts on it can match them all."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from proxy.commands.spec import Spec

ReplyEdit: TypeAlias = Callable[[bytes], bytes]
"""Maps one whole reply frame (with its CRLF) to the frame that the client gets instead. Pure."""


def chained(first: ReplyEdit | None, then: ReplyEdit | None) -> ReplyEdit | None:
    """Both edits, one after the other: the first one is the closer to Redis."""
    if first is None or then is None:
        return first or then
    return lambda frame: then(first(frame))


@dataclass(frozen=True, slots=True)
class Pass:
    """The command goes on as it is.

    `skipped` says why a rewrite that the rule asks for was not made; it is empty where there was nothing to
    do. `would_refuse` is the refusal that the command gets as soon as all rules are enforced that have a say in it: the
    rule itself may be, but speaks for another one that is only audited. It is counted as audited.
    """

    skipped: str = ""
    would_refuse: "Refuse | None" = None


# Made for each judged command: not frozen, which would take three times as long.
@dataclass(slots=True)
class Rewrite:
    """The command goes on as `argv`, and `edit`, if any, is applied to its reply.

    An argument that is being streamed (``Command.streamed``) keeps its index; what `argv` holds of it is not sent.
    `spec` is the command that `argv` is, where the rule knows it, and spares looking it up.
    """

    argv: list[bytes]
    edit: ReplyEdit | None = None
    spec: Spec | None = field(default=None, compare=False)


@dataclass(slots=True)
class Refuse:
    """The command does not reach Redis; `error` is the whole reply line, CRLF included.

    With `close` the client is closed behind it.
    """

    error: bytes
    close: bool = False


@dataclass(slots=True)
class Answer:
    """The command does not reach Redis, and the client gets `reply`, a whole frame. Never inside MULTI."""

    reply: bytes


End: TypeAlias = Pass | Rewrite | Refuse | Answer
"""What a procedure ends in."""

Steps: TypeAlias = Generator[Sequence[Sequence[bytes]], Sequence[bytes], End]
"""Yields commands that are to be asked together, gets their reply frames, returns its end. Pure but for its answers."""


@dataclass(slots=True)
class Procedure:
    """Keyrail asks Redis itself before it decides, while only this client waits.

    `steps` begins the asking: on a connection of Keyrail's own, as the client's user, in its database, for at most
    `seconds`. `otherwise` is the end where that can't be, or takes too long; it is given the reason, in words for
    people ("it is inside MULTI"). Where it does not wait (`waits`), the command goes on meanwhile, and the end is only
    counted.
    """

    steps: Callable[[], Steps]
    seconds: float
    otherwise: Callable[[str], Pass | Refuse]
    waits: bool = True


class Renewal(list[bytes]):
    """A hidden command that may change ``key`` although the command before it has left that key alone: a client that
    watches the key would see its EXEC fail, so it waits for that."""

    def __init__(self, key: bytes, argv: Sequence[bytes]) -> None:
        super().__init__(argv)
        self.key = key


Conclusion: TypeAlias = Callable[[bytes, Sequence[bytes]], Sequence[Sequence[bytes]]]
"""From the first line of the reply to a client's command, and of each reply to the hidden commands that ran with it:
the commands that are to follow. Pure; lines have their CRLF. Asked after an error only with
``Surround.after_error``."""


@dataclass(slots=True)
class Surround:
    """The command goes on as it is, and what its reply proves decides on hidden commands that follow it.

    `before` and `after` are hidden commands that run right before and behind it, as one with it: where its own reply is
    no proof. What `conclude` returns is sent as soon as the reply is there. The client sees
    none of their replies. Where no hidden command may go with it (no reply will come, the connection is between WATCH
    and EXEC, the client tracks keys, the command may block), it gets `otherwise`, or goes alone and is counted as
    skipped. Only for commands that any connection can run, and for those that block. With `after_error`, `conclude` is
    asked after errors, too: a script that fails has written what it wrote. `about` says for people what is
    to follow. A `notice`, if any, is shown the first line as well, and what it returns is counted.
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
    """The command goes on as it is, and `at` is shown the first line of its reply; whatever the rule's mode is.

    What `at` returns is counted with the rule, in words for people; nothing where it is empty. Errors are not shown,
    and nothing is where no reply comes, or the client tracks keys.
    """

    at: Callable[[bytes], str]


Verdict: TypeAlias = End | Procedure | InspectReply | Surround

PASS = Pass()


def closes(verdict: Verdict) -> bool:
    """Whether the client is to be closed."""
    return type(verdict) is Refuse and verdict.close
