"""Replies without the addresses of nodes: whoever learnt one could go around the policy.

A client is shown the address of Keyrail, and no replication: Keyrail's own address where the node shows its own,
nothing where it shows another one's. As one plain Redis (``single``) it says that it is no cluster. Which form a reply
has stands in the command's row (``shows_nodes``); ``hidden_redirect`` and ``hidden_own_error`` are for errors, of
whichever command.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from proxy.commands.error_texts import SHOWS_NODES
from proxy.commands.row import NodeSigns
from proxy.commands.rows import ROWS
from proxy.commands.table import STANDARD
from proxy.wire.encode import encode_bulk
from proxy.wire.reply import ReplyScanner

Text: TypeAlias = Callable[[bytes], bytes]

_HIDDEN = b"?"
_NO_ADDRESS = b"?:0"
"""As engines write the address of a client that has none."""
_REPLICATION = re.compile(rb"(?:slave|replica)[0-9]+")
_SENDER = re.compile(rb"\bladdr=[^ \r\n]*")
_REPLICATION_LINK = re.compile(rb"\bflags=[^ ]*[SM]")
_ADDRESS_OPTIONS = re.compile(rb".*announce.*|bind|bind-source-addr|unixsocket|replicaof|slaveof")
_NAMES = re.compile(rb".*(?:file|dir)(?:name)?|syslog-ident")
"""Options with names of files, folders and the like: many installations give each node's its port."""
_PORT_OPTIONS = frozenset({b"port", b"tls-port"})
_BUS_OPTIONS = frozenset({b"cluster-port"})
_WITH_ADDRESSES = frozenset(row.name for row in ROWS.values() if row.names_addresses)


@dataclass(frozen=True, slots=True)
class Shown:
    """What clients see in a node's place: Keyrail's address; ``single`` is one plain Redis."""

    host: str
    port: int
    single: bool = True

    @property
    def address(self) -> bytes:
        """As CLIENT LIST writes it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}".encode()


def hidden(signs: NodeSigns, shown: Shown, frame: bytes) -> bytes:
    """The reply without any node's address; errors as they are."""
    return frame if frame.startswith(b"-") else _EDITS[signs](frame, shown)


def hidden_redirect(frame: bytes) -> bytes:
    """An error that would send the client to a node, as one that does not; any other frame as it is."""
    if not SHOWS_NODES.hinted(frame):
        return frame
    return b"-CLUSTERDOWN keyrail: the slot is on its way to another node: try again\r\n"


def hidden_own_error(frame: bytes) -> bytes:
    """The same for an error of a command that may have run, such as the error that a script returns."""
    if not SHOWS_NODES.hinted(frame):
        return frame
    word = frame[1:].split(None, 1)[0]
    return b"-ERR keyrail: the command answered with an error that begins with %b, and may have run\r\n" % word


# Frames


def _with_texts(frame: bytes, edit: Text) -> bytes:
    # Bulk and verbatim strings, however deep: no other length in the frame depends on theirs.
    parts, i = [], 0
    while i < len(frame):
        end = frame.index(b"\n", i) + 1
        kind, line = frame[i : i + 1], frame[i + 1 : end - 2]
        if kind in b"$=" and not line.startswith(b"-"):
            size = int(line)
            parts.append(_string(kind, frame[end : end + size], edit))
            end += size + 2
        else:
            parts.append(frame[i:end])
        i = end
    return b"".join(parts)


def _string(kind: bytes, text: bytes, edit: Text) -> bytes:
    if kind == b"=":
        text = text[:4] + edit(text[4:])
        return b"=%d\r\n%b\r\n" % (len(text), text)
    return encode_bulk(edit(text))


def _members(frame: bytes) -> tuple[bytes, list[bytes]]:
    # An aggregate's head, and its elements.
    scanner, i = ReplyScanner(), frame.index(b"\n") + 1
    head, found = frame[:i], []
    while i < len(frame):
        end = scanner.whole(frame, i, len(frame))
        found.append(frame[i:end])
        i = end
    return head, found


def _text(frame: bytes) -> bytes:
    begin = frame.index(b"\n") + 1
    return frame[begin:-2] if frame.startswith(b"$") else b""


# One edit for each form


def _info(frame: bytes, shown: Shown) -> bytes:
    return _with_texts(frame, lambda text: b"".join(_info_line(line, shown) for line in text.splitlines(keepends=True)))


def _info_line(line: bytes, shown: Shown) -> bytes:
    name, colon, value = line.partition(b":")
    ending = value[len(value.rstrip(b"\r\n")) :]
    if not colon:
        return line
    if name.startswith(b"listener") or _REPLICATION.fullmatch(name):
        return b""
    if name in (b"master_host", b"master_port", b"config_file", b"executable"):
        return name + b":" + ending
    if name in (b"connected_slaves", b"connected_replicas"):
        return name + b":0" + ending
    if name == b"tcp_port":
        return b"tcp_port:%d%b" % (shown.port, ending)
    if shown.single and name == b"cluster_enabled":
        return b"cluster_enabled:0" + ending
    if shown.single and name in (b"redis_mode", b"server_mode"):
        return name + b":standalone" + ending
    return line


def _role(frame: bytes, shown: Shown) -> bytes:
    # master, offset, replicas; or slave, the primary's host and port, state, offset.
    head, members = _members(frame)
    if len(members) == 3:
        members[2] = b"*0\r\n"
    elif len(members) == 5:
        members[1:3] = [encode_bulk(b""), b":0\r\n"]
    return head + b"".join(members)


def _clients(frame: bytes, shown: Shown) -> bytes:
    def of_clients(text: bytes) -> bytes:
        lines = [line for line in text.splitlines(keepends=True) if not _REPLICATION_LINK.search(line)]
        return _SENDER.sub(b"laddr=" + shown.address, b"".join(lines))

    return _with_texts(frame, of_clients)


def _client_info(frame: bytes, shown: Shown) -> bytes:
    return _with_texts(frame, lambda text: _SENDER.sub(b"laddr=" + shown.address, text))


def _config(frame: bytes, shown: Shown) -> bytes:
    head, members = _members(frame)
    for index in range(0, len(members) - 1, 2):
        members[index + 1] = _option(_text(members[index]).lower(), members[index + 1], shown)
    return head + b"".join(members)


def _option(name: bytes, value: bytes, shown: Shown) -> bytes:
    if name in _PORT_OPTIONS:
        return encode_bulk(b"%d" % shown.port) if _text(value) != b"0" else value
    if name in _BUS_OPTIONS:
        return encode_bulk(b"0")
    if shown.single and name == b"cluster-enabled":
        return encode_bulk(b"no")
    return encode_bulk(b"") if _ADDRESS_OPTIONS.fullmatch(name) or _NAMES.fullmatch(name) else value


def _slow_log(frame: bytes, shown: Shown) -> bytes:
    head, entries = _members(frame)
    return head + b"".join(_slow_command(entry) for entry in entries)


def _slow_command(entry: bytes) -> bytes:
    # id, time, duration, arguments, client, name
    head, members = _members(entry)
    if len(members) < 4:
        return entry
    if len(members) > 4:
        members[4] = encode_bulk(_NO_ADDRESS)  # a replica has commands from its primary, with that one's address
    start, arguments = _members(members[3])
    argv = [_text(argument) for argument in arguments]
    spec = STANDARD.spec_of(argv)
    if spec.name in _WITH_ADDRESSES:
        words = spec.name.count("|") + 1
        members[3] = start + b"".join([*arguments[:words], *[encode_bulk(_HIDDEN)] * (len(arguments) - words)])
    return head + b"".join(members)


def _hello(frame: bytes, shown: Shown) -> bytes:
    if not shown.single:
        return frame
    head, members = _members(frame)
    for index in range(0, len(members) - 1, 2):
        if _text(members[index]) == b"mode":
            members[index + 1] = encode_bulk(b"standalone")
    return head + b"".join(members)


_EDITS: dict[NodeSigns, Callable[[bytes, Shown], bytes]] = {
    "info": _info,
    "role": _role,
    "clients": _clients,
    "client info": _client_info,
    "config": _config,
    "slow log": _slow_log,
    "hello": _hello,
}
