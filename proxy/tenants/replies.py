"""A reply without the tenant's prefix, in RESP2 and RESP3.

A reply that has another form than its command's, or a name without the prefix, is replaced by an error: a tenant would
see what is not its own.
"""

import re
from collections.abc import Sequence

from proxy.commands.tenant_commands import ReplyNames
from proxy.wire.encode import encode_error
from proxy.wire.reply import ReplyScanner

OTHER_FORM = encode_error(
    "ERR keyrail: Redis gave a reply in which the names of a tenant cannot be told from others', so it was dropped"
)
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")
_SHOWN_SECTIONS = frozenset({"server", "clients", "memory", "persistence", "stats", "replication", "cpu", "cluster"})
"""Sections of INFO about the server as a whole. Others count keys and commands, which are of all tenants together."""

_COUNTS_NAMES = re.compile(
    rb"""((?!valkey_)[a-z_]*key[a-z_]* | rdb_changes_since_last_save | tracking_total_(items|prefixes) | expired_fields
    | lazyfree(d|_pending)_objects | io_threaded_(freed_objects|total_prefetch_entries)
    | pubsub(shard)?_(channels|patterns)):""",
    re.VERBOSE,
)
"""Fields of these sections that count keys or channels of all tenants: how many were loaded, found, missed, expired,
evicted or freed, or have subscribers."""


class ErrorEdit:
    """Takes the prefix off the names that an error quotes, and leaves all other replies as they are. ``names`` are
    those of the request, as the tenant gave them."""

    __slots__ = ("_names", "_prefix")

    def __init__(self, prefix: bytes, names: Sequence[bytes]) -> None:
        self._prefix = prefix
        self._names = names

    def __call__(self, frame: bytes) -> bytes:
        """The reply as the tenant gets it."""
        if not frame.startswith(b"-") or self._prefix not in frame:
            return frame
        # Redis ends a name at its first NUL, and has spaces for line ends.
        names = [name.partition(b"\0")[0].translate(_ONE_LINE) for name in self._names]
        told, done, at = b"", 0, _quoted(frame, self._prefix, 0)
        while at >= 0:
            begin = at + 1 + len(self._prefix)
            size = _name_at(frame, begin, frame[at : at + 1], names)
            if size >= 0:
                told += frame[done : at + 1]
                done = begin
            at = _quoted(frame, self._prefix, begin + max(size, 0))
        return told + frame[done:]


def _quoted(frame: bytes, prefix: bytes, start: int) -> int:
    # Where a quote stands next that the prefix follows; -1 if nowhere.
    places = (frame.find(quote + prefix, start) for quote in (b"'", b"`"))
    return min((place for place in places if place >= 0), default=-1)


def _name_at(frame: bytes, begin: int, quote: bytes, names: Sequence[bytes]) -> int:
    # The size of the name that stands there, or of its beginning: Redis cuts what is long. -1 if it is no name.
    whole = [len(name) for name in names if frame.startswith(name + quote, begin)]
    if whole:
        return max(whole)
    cut = frame[begin : max(begin, frame.find(quote, begin))]
    return len(cut) if cut and any(name.startswith(cut) for name in names) else -1


def stripped(names: ReplyNames, prefix: bytes, frame: bytes) -> bytes:
    """The reply with the prefix taken off each of its names."""
    if frame[:1] in (b"-", b"_") or frame[1:3] == b"-1":
        return frame
    try:
        if names is ReplyNames.SECTIONS:
            return _without_sections(frame)
        return Strip(frame, prefix).strip(names)
    except ValueError:
        return OTHER_FORM


class Strip:
    """One reply: ``parts`` is what the tenant gets of it up to ``done``. Raises ValueError for another form."""

    def __init__(self, frame: bytes, prefix: bytes) -> None:
        self.frame = frame
        self.prefix = prefix
        self.parts: list[bytes] = []
        self.done = 0
        self.scanner = ReplyScanner()

    def strip(self, names: ReplyNames) -> bytes:
        kind, count, i = self._line(0)
        if names is ReplyNames.STREAMS:
            self._streams(kind, count, i)
        elif names is ReplyNames.PAGE:
            self._all(*self._line(self._behind(i)))
        elif names is ReplyNames.PREFIXES:
            self._prefixes(kind, count, i)
        elif names is ReplyNames.PAIRS:
            self._pairs(kind, count, i)
        elif names is ReplyNames.ALL:
            self._all(kind, count, i)
        elif kind == b"*" and count > 1:
            self._name(i)
        else:
            raise ValueError
        return b"".join((*self.parts, self.frame[self.done :]))

    def _all(self, kind: bytes, count: int, i: int) -> None:
        if kind not in (b"*", b"~"):
            raise ValueError
        for _ in range(count):
            i = self._name(i)

    def _pairs(self, kind: bytes, count: int, i: int) -> None:
        if kind != b"*" or count % 2:
            raise ValueError
        for _ in range(0, count, 2):
            i = self._behind(self._name(i))

    def _prefixes(self, kind: bytes, count: int, i: int) -> None:
        for _ in range(count if kind == b"%" else count // 2):
            _, size, start = self._line(i)
            i = self._behind(i)
            if self.frame[start : start + size] == b"prefixes":
                self._all(*self._line(i))
            i = self._behind(i)

    def _streams(self, kind: bytes, count: int, i: int) -> None:
        if kind not in (b"*", b"%"):
            raise ValueError
        for _ in range(count):
            if kind == b"*":
                _, members, i = self._line(i)
                if members != 2:
                    raise ValueError
            i = self._behind(self._name(i))

    def _line(self, i: int) -> tuple[bytes, int, int]:
        end = self.frame.index(b"\r\n", i)
        return self.frame[i : i + 1], int(self.frame[i + 1 : end]), end + 2

    def _behind(self, i: int) -> int:
        end = self.scanner.whole(self.frame, i, len(self.frame))
        if end < 0:
            raise ValueError
        return end

    def _name(self, i: int) -> int:
        return self._cut(i, 0, self.prefix)

    def _cut(self, i: int, at: int, prefix: bytes) -> int:
        # Take the prefix off the bulk string at ``i``, ``at`` bytes behind its beginning; the offset behind the string.
        kind, size, start = self._line(i)
        cut = start + at
        if kind != b"$" or not self.frame.startswith(prefix, cut, start + max(size, 0)):
            raise ValueError
        self.parts += self.frame[self.done : i], b"$%d\r\n" % (size - len(prefix)), self.frame[start:cut]
        self.done = cut + len(prefix)
        return start + size + 2


def _without_sections(frame: bytes) -> bytes:
    # A bulk string, in RESP3 a verbatim one, with its format before it.
    head, _, text = frame[:-2].partition(b"\r\n")
    if not head.startswith((b"$", b"=")):
        raise ValueError
    form = text[:4] if head.startswith(b"=") else b""
    sections = text[len(form) :].removesuffix(b"\r\n").split(b"\r\n\r\n")
    shown = b"\r\n".join(_without_counts(each) + b"\r\n" for each in sections if _is_shown(each))
    return b"%b%d\r\n%b%b\r\n" % (head[:1], len(form) + len(shown), form, shown)


def _without_counts(section: bytes) -> bytes:
    return b"\r\n".join(line for line in section.split(b"\r\n") if not _COUNTS_NAMES.match(line))


def _is_shown(section: bytes) -> bool:
    title = section.partition(b"\r\n")[0]
    return title.startswith(b"# ") and title[2:].lower().decode("latin-1") in _SHOWN_SECTIONS
