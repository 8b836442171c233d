"""Channels and messages of a tenant's clients.

Most channels are the clients' own, and get the prefix as keys do. On a few Redis itself sends, and tells of keys:

    __keyspace@0__:KEY      EVENT is the message: the prefix stands inside the channel
    __keyevent@0__:EVENT    KEY is the message: that of another tenant is dropped
    __redis__:invalidate    KEYS are the message, or null for all; in RESP3 a push

A pattern may name a key only behind ``__keyspace@0__:`` or ``__keyspace@*__:``. What a pattern matches beyond the
tenant's own keys is dropped message by message.
"""

import re
from collections.abc import Callable
from functools import partial

from proxy.tenants.replies import Strip
from proxy.wire.encode import encode_array

_CONFIRM_CHANNELS = frozenset({b"subscribe", b"unsubscribe"})
_CONFIRM_PATTERNS = frozenset({b"psubscribe", b"punsubscribe"})
_OF_PATTERNS = _CONFIRM_PATTERNS | {b"pmessage"}
_GLOB = b"\\*?[]^-"
_INVALIDATIONS = b"__redis__:invalidate"
OF_THE_SERVER = (b"__key", b"__redis__:")
"""How channels begin on which the server itself sends. No prefix does, or a tenant could name them as its own."""
_NOTIFIES = re.compile(rb"__key(?:(space)|event)@[0-9]+__:")
_ABOUT_KEYS = re.compile(rb"__keyspace@(?:[0-9]+|\*)__:")
_ABOUT_EVENTS = re.compile(
    rb"__keyevent@(?:[0-9]+|\*)__: | __key\*(?:@(?:[0-9]+|\*))?__:\*\Z | __key(?:space|event)?@?\*\Z", re.VERBOSE
)
"""Patterns of events, and those that match all channels of their kind, whatever the key is."""


def full_channel(channel: bytes, prefix: bytes) -> bytes:
    """A channel of SUBSCRIBE as Redis has it."""
    about = _NOTIFIES.match(channel)
    if about is not None and about[1]:
        return channel[: about.end()] + prefix + channel[about.end() :]
    return channel if about is not None or channel == _INVALIDATIONS else prefix + channel


def full_pattern(pattern: bytes, prefix: bytes) -> bytes | None:
    """A pattern of PSUBSCRIBE as Redis has it, with the prefix escaped; None if it cannot have one."""
    about = _ABOUT_KEYS.match(pattern)
    if about is not None:
        return pattern[: about.end()] + prefix + pattern[about.end() :]
    if pattern.startswith(OF_THE_SERVER):
        return pattern if _ABOUT_EVENTS.match(pattern) else None
    return prefix + pattern


def glob_escaped(prefix: bytes) -> bytes:
    """A pattern that matches only the prefix itself."""
    return b"".join(b"\\%c" % byte if byte in _GLOB else b"%c" % byte for byte in prefix)


def message_edit(prefix: bytes) -> Callable[[bytes], bytes]:
    """The edit of messages, invalidations and confirmations of subscriptions, which name a channel, a pattern or both.
    Empty for what is not the tenant's; without a prefix, nothing is."""
    return partial(_edited, prefix, glob_escaped(prefix))


def _edited(prefix: bytes, pattern_prefix: bytes, frame: bytes) -> bytes:
    if not prefix:
        return b""
    try:
        return _Message(frame, prefix).edited(pattern_prefix)
    except ValueError:
        return b""


class _Message(Strip):
    """One message, push or confirmation."""

    def edited(self, pattern_prefix: bytes) -> bytes:
        """It without the prefix; a confirmation about no channel has a null in its place."""
        word, i = self._bulk(self._line(0)[2])
        if word == b"invalidate":
            self._keys(i)
        elif word != b"tracking-redir-broken" and not self._is_null(i):
            if word in _OF_PATTERNS:
                i = self._pattern(i, pattern_prefix)
            if word in _CONFIRM_CHANNELS or word in (b"message", b"pmessage"):
                self._channel(i, told=word not in _CONFIRM_CHANNELS)
            elif word not in _CONFIRM_PATTERNS:
                self._name(i)
        return b"".join((*self.parts, self.frame[self.done :]))

    def _pattern(self, i: int, pattern_prefix: bytes) -> int:
        pattern, end = self._bulk(i)
        about = _ABOUT_KEYS.match(pattern)
        if about is not None:
            return self._cut(i, about.end(), pattern_prefix)
        return end if pattern.startswith(OF_THE_SERVER) else self._cut(i, 0, pattern_prefix)

    def _channel(self, i: int, *, told: bool) -> None:
        # The channel, and what is ``told`` behind it.
        channel, end = self._bulk(i)
        about = _NOTIFIES.match(channel)
        if about is None and channel != _INVALIDATIONS:
            self._name(i)
        elif about is not None and about[1]:
            self._cut(i, about.end(), self.prefix)
        elif told and about is None:
            self._keys(end)
        elif told:
            self._name(end)

    def _keys(self, i: int) -> None:
        # An array of keys, of which others' are left out, or null for all keys.
        if self._is_null(i):
            return
        kind, count, at = self._line(i)
        if kind != b"*":
            raise ValueError
        own = []
        for _ in range(count):
            name, at = self._bulk(at)
            if name.startswith(self.prefix):
                own.append(name.removeprefix(self.prefix))
        if not own:
            raise ValueError
        self.parts += self.frame[self.done : i], encode_array(own)
        self.done = at

    def _is_null(self, i: int) -> bool:
        return self.frame[i : i + 1] == b"_" or self.frame[i + 1 : i + 3] == b"-1"

    def _bulk(self, i: int) -> tuple[bytes, int]:
        kind, size, start = self._line(i)
        if kind != b"$" or size < 0:
            raise ValueError
        return self.frame[start : start + size], start + size + 2
