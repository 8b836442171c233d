"""The replies of several nodes as one reply.

Each function takes one whole frame of each node, in the order of the nodes, and returns one frame. What it reads in a
frame is the same in RESP2 and RESP3. Where a node fails, the reply is its error, and says which nodes have run the
command: whoever reads it must know what is done and what is not.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from proxy.cluster.notifications import is_notification
from proxy.commands.error_texts import NOT_ASKED, NOTHING_TO_END
from proxy.commands.over_nodes import Join
from proxy.wire.encode import encode_null
from proxy.wire.reply import ReplyScanner

Joiner: TypeAlias = Callable[[Sequence[bytes]], bytes]
"""Makes one frame of one frame for each node."""

_LONGEST_NAMES = 10
_AGGREGATES = (b"*", b"~", b"%")
_UNEXPECTED = b"-ERR keyrail: the nodes' replies to %b do not fit each other\r\n"


class UnexpectedReplyError(Exception):
    """A node's reply is of another kind than the command's."""


def joiner(join: Join, command: str, nodes: Sequence[str]) -> Joiner:
    """How the replies of these nodes to a command (``"CONFIG SET"``) become one."""
    if join is Join.ONE_SUCCEEDED:
        return one_succeeded
    return partial(_all_answered, _JOINS[join], command, nodes)


def one_succeeded(frames: Sequence[bytes]) -> bytes:
    """The first reply that is no error. If all are, the one that says most: why something goes on, that a node was not
    asked, that there is nothing to end."""
    succeeded = (frame for frame in frames if not is_error(frame))
    unknown = (frame for frame in frames if NOT_ASKED.begin(frame))
    telling = (frame for frame in frames if not (NOTHING_TO_END.begin(frame) or NOT_ASKED.begin(frame)))
    return next(succeeded, None) or next(telling, None) or next(unknown, frames[0])


def _all_answered(join: Joiner, command: str, nodes: Sequence[str], frames: Sequence[bytes]) -> bytes:
    if any(is_error(frame) for frame in frames):
        return nodes_failed(command, nodes, frames)
    try:
        return join(frames)
    except UnexpectedReplyError:
        return _UNEXPECTED % command.encode()


def is_error(frame: bytes) -> bool:
    """Whether a node has answered with an error."""
    return frame.startswith((b"-", b"!"))


# Errors that say what ran


def nodes_failed(command: str, nodes: Sequence[str], frames: Sequence[bytes]) -> bytes:
    """The first error, and which nodes have run the command; as it is where none has."""
    failed = [node for node, frame in zip(nodes, frames, strict=True) if is_error(frame)]
    ran = [node for node, frame in zip(nodes, frames, strict=True) if not is_error(frame)]
    error = next(frame for frame in frames if is_error(frame))
    if not ran:
        return error
    return _extended(error, f"{command} ran on {_listed(ran)}, and not on {_listed(failed)}")


def keys_failed(command: str, width: int, places: Sequence[Sequence[int]], frames: Sequence[bytes]) -> bytes:
    """The first error, and for which arguments a split command has run; as it is where it has for none.

    ``places`` has for each frame where its keys stood among the keys, each of which is ``width`` arguments.
    """
    ran: list[int] = []
    failed: list[int] = []
    for keys, frame in zip(places, frames, strict=True):
        (failed if is_error(frame) else ran).extend(1 + key * width for key in keys)
    error = next(frame for frame in frames if is_error(frame))
    if not ran:
        return error
    some = _listed([str(index) for index in sorted(failed)])
    return _extended(
        error, f"{command} ran for {len(ran)} of {len(ran) + len(failed)} keys, and not for arguments {some}"
    )


def first_error(frames: Sequence[bytes]) -> bytes:
    """The first error as it is: of a command that changes nothing."""
    return next(frame for frame in frames if is_error(frame))


def _extended(error: bytes, text: str) -> bytes:
    line = error[1:-2] if error.startswith(b"-") else error.split(b"\r\n", 1)[1][:-2]
    return b"-%b (%b)\r\n" % (line, text.encode())


def _listed(names: Sequence[str]) -> str:
    if len(names) > _LONGEST_NAMES:
        return f"{', '.join(names[:_LONGEST_NAMES])} and {len(names) - _LONGEST_NAMES} more"
    return ", ".join(names)


# What frames hold


def elements(frame: bytes) -> list[bytes]:
    """The elements of an array or a set, a frame each; none of a null. Raises for any other frame."""
    if frame[:1] not in (b"*", b"~"):
        raise UnexpectedReplyError
    return _members(frame)


def _members(frame: bytes) -> list[bytes]:
    # The frames that this one consists of; of a map, keys and values in turn.
    scanner, found, size = ReplyScanner(), [], len(frame)
    i = frame.index(b"\n") + 1
    while i < size:
        end = scanner.whole(frame, i, size)
        if end < 0:
            raise UnexpectedReplyError
        found.append(frame[i:end])
        i = end
    return found


def number(frame: bytes) -> int:
    """The value of an integer. Raises for any other frame."""
    if not frame.startswith(b":"):
        raise UnexpectedReplyError
    return int(frame[1:-2])


def _array(frames: Sequence[bytes]) -> bytes:
    return b"*%d\r\n%b" % (len(frames), b"".join(frames))


# Joins


def _first(frames: Sequence[bytes]) -> bytes:
    return frames[0]


def _sum(frames: Sequence[bytes]) -> bytes:
    return b":%d\r\n" % sum(map(number, frames))


def _least(frames: Sequence[bytes]) -> bytes:
    if frames[0].startswith(b"*"):  # WAITAOF has two numbers
        return _array([b":%d\r\n" % min(numbers) for numbers in _columns(frames)])
    return b":%d\r\n" % min(map(number, frames))


def _all_say_one(frames: Sequence[bytes]) -> bytes:
    return _array([b":%d\r\n" % all(numbers) for numbers in _columns(frames)])


def _columns(frames: Sequence[bytes]) -> Iterator[tuple[int, ...]]:
    rows = [[number(each) for each in elements(frame)] for frame in frames]
    if len({len(row) for row in rows}) != 1:
        raise UnexpectedReplyError
    return zip(*rows, strict=True)


def _arrays(frames: Sequence[bytes]) -> bytes:
    return _array([each for frame in frames for each in elements(frame)])


def _distinct(frames: Sequence[bytes]) -> bytes:
    found: dict[bytes, bytes] = {}
    for frame in frames:
        for each in elements(frame):
            found.setdefault(_in_one_order(each), each)
    return _array(list(found.values()))


def _in_one_order(frame: bytes) -> bytes:
    # Each node lists a library's functions in an order of its own: members that are arrays or maps have none.
    if not frame.startswith(_AGGREGATES):
        return frame
    members = [_in_one_order(each) for each in _members(frame)]
    if all(each.startswith(_AGGREGATES) for each in members):
        members.sort()
    return frame[: frame.index(b"\n") + 1] + b"".join(members)


def _sum_by_name(frames: Sequence[bytes]) -> bytes:
    sums: list[tuple[bytes, int]] = []
    for frame in frames:
        found = elements(frame)
        pairs = [(name, number(count)) for name, count in zip(found[::2], found[1::2], strict=True)]
        if sums and [name for name, _ in pairs] != [name for name, _ in sums]:
            raise UnexpectedReplyError
        sums = [(name, _summed(name, count, sums[i][1] if sums else 0)) for i, (name, count) in enumerate(pairs)]
    return _array([part for name, count in sums for part in (name, b":%d\r\n" % count)])


def _summed(name: bytes, count: int, others: int) -> int:
    # Who is subscribed to notifications is so on each node.
    channel = name.partition(b"\r\n")[2]
    return max(count, others) if is_notification(channel) else count + others


def of_no_server(join: Join, frame: bytes) -> bytes:
    """The reply of one server, as another one would answer on which nothing has happened. Errors are as they are."""
    kind = frame[:1]
    if join is Join.SUM_BY_NAME and kind in _AGGREGATES:
        return _array([part for name in elements(frame)[::2] for part in (name, b":0\r\n")])
    if kind in _AGGREGATES or kind == b":":
        return kind + b"0\r\n"
    if kind == b"=":
        return b"=4\r\ntxt:\r\n"
    return b"$0\r\n\r\n" if kind == b"$" else frame


_JOINS: dict[Join, Joiner] = {
    Join.SUM: _sum,
    Join.MIN: _least,
    Join.LOGICAL_AND: _all_say_one,
    Join.ALL_SUCCEEDED: _first,
    Join.ARRAYS: _arrays,
    Join.DISTINCT: _distinct,
    Join.SUM_BY_NAME: _sum_by_name,
}


def published(command: str, frames: Sequence[bytes]) -> bytes:
    """The reply to PUBLISH: how many the first node has sent it to, and the subscribers that the others count.

    The message has been sent if the first node says so: what the others fail to count is left out.
    """
    if is_error(frames[0]):
        return frames[0]
    try:
        counts = [number(elements(frame)[1]) for frame in frames[1:] if not is_error(frame)]
        return b":%d\r\n" % (number(frames[0]) + sum(counts))
    except (UnexpectedReplyError, IndexError):
        return _UNEXPECTED % command.encode()


def random_key(chance: float, protocol: int, frames: Sequence[bytes]) -> bytes:
    """One of the keys that the nodes have picked: each node answers RANDOMKEY, and DBSIZE behind it.

    ``chance``, from 0 to 1, picks among them by how many keys each node has, so that each key is as likely as others.
    """
    picks = list(zip(frames[::2], frames[1::2], strict=True))
    keys = [(key, number(size) if size.startswith(b":") else 1) for key, size in picks if key.startswith(b"$")]
    keys = [(key, max(1, size)) for key, size in keys if not key.startswith(b"$-")]
    if not keys:
        return next((key for key, _ in picks if is_error(key)), encode_null(protocol))
    left = chance * sum(size for _, size in keys)
    for key, size in keys:
        left -= size
        if left < 0:
            return key
    return keys[-1][0]
