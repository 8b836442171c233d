"""A tenant's request with its prefix before each name.

Whatever is not certain is refused: keys in unknown places, an option that only a newer engine knows, a name so large
that it has not arrived whole. So a request that goes on has no name without the prefix.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from proxy.commands.command import Command, KeysUnknownError
from proxy.commands.overlay import HANDSHAKE
from proxy.commands.table import NOTIFICATIONS, ConnectionState
from proxy.commands.tenant_commands import Offer, ReplyNames, RequestNames, ScriptTerms, decision_of
from proxy.commands.words import word_of
from proxy.tenants import slot_keys
from proxy.tenants.messages import full_channel, full_pattern, glob_escaped
from proxy.tenants.replies import ErrorEdit, stripped
from proxy.wire.encode import encode_error

ReplyEdit: TypeAlias = Callable[[bytes], bytes]

_CHANNELS = frozenset(
    {
        RequestNames.CHANNELS,
        RequestNames.SUBSCRIPTIONS,
        RequestNames.PATTERN_SUBSCRIPTIONS,
        RequestNames.SHOWN_CHANNELS,
    }
)
_WALKS = frozenset({RequestNames.PATTERN, RequestNames.COUNT, RequestNames.ANY_KEY})
_WHICH_PATTERNS = (
    "a pattern of keyspace notifications begins with __keyspace@N__: or __keyevent@N__:, where N is a number or *, "
    "or is __key*__:*"
)
_SYNTAX_ERROR = b"-ERR syntax error\r\n"
_SCAN_OPTIONS = frozenset({b"MATCH", b"COUNT", b"TYPE"})
_SORT_OPTIONS = {b"ASC": 0, b"DESC": 0, b"ALPHA": 0, b"LIMIT": 2, b"STORE": 1, b"BY": 1, b"GET": 1}
"""How many arguments belong to each."""
_TRACKING_OPTIONS = {b"BCAST": 0, b"NOLOOP": 0, b"OPTIN": 0, b"OPTOUT": 0, b"PREFIX": 1, b"REDIRECT": 1}
_MOST_NAME = 64
"""Bytes of a name that an error shows."""


class NotOfferedError(Exception):
    """The request does not go on; ``error`` is the reply that the client gets."""

    def __init__(self, error: bytes) -> None:
        super().__init__(error)
        self.error = error


class Prefixed(NamedTuple):
    """A request as Redis gets it, and the edit that makes its reply the tenant's; None if no name can be in that."""

    argv: list[bytes]
    edit: ReplyEdit | None


def refusal_of(command: Command, scripts: ScriptTerms = ScriptTerms.REFUSE) -> bytes:
    """The error for a command that is not offered to tenants; empty for one that is."""
    offer = decision_of(command.spec.name, scripts)
    if isinstance(offer, Offer) or _is_notifications(command):
        return b""
    if command.spec.name in HANDSHAKE:
        # Client libraries go on without a command that their user may not run, and without no other error.
        return encode_error(f"NOPERM this user has no permissions to run the '{command.spec.name.lower()}' command")
    return denied(command, offer or "this Keyrail does not know where it has names")


def has_names(command: Command) -> bool:
    """Whether a tenant's request of this command has names, or may have."""
    offer = decision_of(command.spec.name, ScriptTerms.TRUST)
    return not isinstance(offer, Offer) or offer.request is not RequestNames.NONE


def prefixed(command: Command, prefix: bytes, scripts: ScriptTerms = ScriptTerms.REFUSE) -> Prefixed:
    """The request of a tenant's client. Raises NotOfferedError."""
    refusal = refusal_of(command, scripts)
    if refusal:
        raise NotOfferedError(refusal)
    offer = decision_of(command.spec.name, scripts)
    return _with_prefix(command, offer, prefix) if isinstance(offer, Offer) else Prefixed(command.argv, None)


def walk_of(command: Command) -> RequestNames | None:
    """What Keyrail walks over the keys of a tenant for, in place of this command; None for any other."""
    offer = decision_of(command.spec.name)
    return offer.request if isinstance(offer, Offer) and offer.request in _WALKS else None


def arity_error(command: Command) -> bytes:
    """Redis's error for a command with a wrong number of arguments; empty for any other."""
    if command.spec.takes(len(command.argv)):
        return b""
    return encode_error(f"ERR wrong number of arguments for '{command.spec.name.lower()}' command")


def own_prefixed(command: Command, prefix: bytes) -> Prefixed:
    """A command that Keyrail itself sends for a tenant's client: its own scripts use no keys but those that they
    declare. Raises NotOfferedError."""
    return prefixed(command, prefix, ScriptTerms.TRUST)


def _with_prefix(command: Command, offer: Offer, prefix: bytes) -> Prefixed:
    if offer.request in (RequestNames.NONE, RequestNames.COUNTED):
        return Prefixed(
            command.argv, None if offer.reply is ReplyNames.NONE else partial(stripped, offer.reply, prefix)
        )
    if error := arity_error(command):
        raise NotOfferedError(error)
    if offer.request in (RequestNames.COUNT, RequestNames.ANY_KEY):
        raise NotOfferedError(denied(command, "Keyrail walks over a tenant's keys for it, which it cannot do here"))
    if offer.request in _CHANNELS:
        return _with_channels(command, offer, prefix)
    if offer.request is RequestNames.SLOT:
        return Prefixed(*slot_keys.asked(command, prefix))
    if offer.request is RequestNames.TRACKING:
        return _tracking(command, prefix)
    argv = list(command.argv)
    names = list(_places(command, offer))
    for index in names:
        if command.length(index) != len(argv[index]):
            raise NotOfferedError(
                denied(command, f"its argument {index} has {command.length(index)} bytes, too many for a name")
            )
        argv[index] = prefix + argv[index]
    if offer.request is RequestNames.PATTERN:
        argv[1] = _pattern(command, 1, prefix)
    elif offer.request is RequestNames.SCAN:
        argv = _scan(command, prefix)
    elif command.spec.state is ConnectionState.WATCH:
        return Prefixed(argv, None)  # its errors name no key
    told = ErrorEdit(prefix, [command.argv[index] for index in names])
    if offer.reply is ReplyNames.NONE:
        return Prefixed(argv, told)
    return Prefixed(argv, partial(_edited, told, partial(stripped, offer.reply, prefix)))


def _with_channels(command: Command, offer: Offer, prefix: bytes) -> Prefixed:
    argv = list(command.argv)
    first = 1 + command.spec.name.count("|")
    for index in range(first, len(argv)):
        argv[index] = _channel(command, index, offer.request, prefix)
    if offer.request is RequestNames.SHOWN_CHANNELS and len(argv) == first:
        argv.append(glob_escaped(prefix) + b"*")
    if offer.reply is ReplyNames.NONE:
        return Prefixed(argv, None)  # what comes is no reply
    return Prefixed(argv, partial(stripped, offer.reply, prefix))


def _channel(command: Command, index: int, names: RequestNames, prefix: bytes) -> bytes:
    if names is RequestNames.SHOWN_CHANNELS:
        return _pattern(command, index, prefix)
    name = _whole(command, index)
    if names is RequestNames.SUBSCRIPTIONS:
        return full_channel(name, prefix)
    if names is not RequestNames.PATTERN_SUBSCRIPTIONS:
        return prefix + name
    pattern = full_pattern(name, glob_escaped(prefix))
    if pattern is None and command.spec.state is ConnectionState.SUBSCRIBE:
        raise NotOfferedError(denied(command, _WHICH_PATTERNS))
    return glob_escaped(prefix) + name if pattern is None else pattern


def _edited(error: ErrorEdit, reply: ReplyEdit, frame: bytes) -> bytes:
    return error(frame) if frame.startswith(b"-") else reply(frame)


def _places(command: Command, offer: Offer) -> Sequence[int]:
    # The arguments before which the prefix goes as it is.
    if offer.request is RequestNames.CHANNEL:
        return (1,)
    if offer.request is RequestNames.HASHED:
        return (2,)
    if offer.request not in (RequestNames.KEYS, RequestNames.SORT):
        return ()
    names = _sort_names(command) if offer.request is RequestNames.SORT else set()
    try:
        return sorted(names.union(index for index, _ in command.key_places))
    except KeysUnknownError as unknown:
        raise NotOfferedError(denied(command, str(unknown))) from unknown


def _sort_names(command: Command) -> set[int]:
    # Each STORE, and the patterns of BY and GET with a star or without: a pattern without one names no key, whatever
    # stands before it. GET # is the element itself.
    argv, found, i = command.argv, set(), 2
    while i < len(argv):
        word = word_of(argv[i])
        more = _SORT_OPTIONS.get(word)
        if more is None or i + more >= len(argv):
            raise NotOfferedError(_SYNTAX_ERROR)
        element = word == b"GET" and argv[i + 1] == b"#" and command.length(i + 1) == 1
        if word in (b"BY", b"GET", b"STORE") and not element:
            found.add(i + 1)
        i += 1 + more
    return found


def _scan(command: Command, prefix: bytes) -> list[bytes]:
    argv, matched = list(command.argv), False
    for i in range(2, len(argv), 2):
        word = word_of(argv[i])
        if word not in _SCAN_OPTIONS or i + 1 == len(argv):
            raise NotOfferedError(_SYNTAX_ERROR)
        if word == b"MATCH":
            argv[i + 1], matched = _pattern(command, i + 1, prefix), True
    return argv if matched else [*argv, b"MATCH", glob_escaped(prefix) + b"*"]


def _tracking(command: Command, prefix: bytes) -> Prefixed:
    # Without a PREFIX, BCAST tells of all keys. Errors quote prefixes of this client alone.
    argv, words, i = list(command.argv), [], 3
    while i < len(argv):
        words.append(word_of(argv[i]))
        more = _TRACKING_OPTIONS.get(words[-1])
        if more is None or i + more >= len(argv):
            raise NotOfferedError(_SYNTAX_ERROR)
        if words[-1] == b"PREFIX":
            argv[i + 1] = prefix + _whole(command, i + 1)
        i += 1 + more
    if b"BCAST" in words and b"PREFIX" not in words:
        argv += b"PREFIX", prefix
    return Prefixed(argv, partial(_without_quoted, prefix))


def _without_quoted(prefix: bytes, frame: bytes) -> bytes:
    return frame.replace(b"'" + prefix, b"'") if frame.startswith(b"-") else frame


def _pattern(command: Command, index: int, prefix: bytes) -> bytes:
    return glob_escaped(prefix) + _whole(command, index)


def _whole(command: Command, index: int) -> bytes:
    name = command.argv[index]
    if command.length(index) != len(name):
        raise NotOfferedError(denied(command, f"the name in argument {index} is too long"))
    return name


def _is_notifications(command: Command) -> bool:
    # Client libraries try it while they connect, and it carries no name.
    words = command.argv[:2]
    return not command.spec.id and b"|".join(map(word_of, words)).decode("latin-1") == NOTIFICATIONS


def denied(command: Command, why: str) -> bytes:
    """The error for a command that is not offered to tenants."""
    return encode_error(f"DENIED keyrail: {command.name[:_MOST_NAME]} is not offered to tenants: {why}")
