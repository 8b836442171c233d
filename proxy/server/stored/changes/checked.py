"""The commands that check a key and change it in one step, and what their replies say.

A script does both, so that no client comes in between. TYPE, PTTL, OBJECT IDLETIME and PEXPIRETIME leave the access
time of a key as it is, in scripts, too (their look-ups have LOOKUP_NOTOUCH). The command that changes the key is the
last one that the script calls, so an error means that nothing was changed.

Where the user may not run scripts, the key is watched: EXEC does nothing if somebody has written to it since. Reads
break no WATCH, so a key's idle time needs a script.
"""

from collections.abc import Sequence
from typing import Any

import hiredis

from proxy.server.stored.changes.model import Outcome, Wish
from proxy.server.stored.page import Command

SCRIPT = b"""
local key, idle, latest, at = KEYS[1], ARGV[4], ARGV[5], ARGV[6]
local kind = redis.call('TYPE', key)['ok']
if kind == 'none' then return 'gone' end
if kind ~= ARGV[1] then return 'changed' end
local left = redis.call('PTTL', key)
if left < tonumber(ARGV[2]) or left > tonumber(ARGV[3]) then return 'changed' end
if idle ~= '' and redis.call('OBJECT', 'IDLETIME', key) < tonumber(idle) then return 'changed' end
local function milliseconds()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
if latest ~= '' and milliseconds() > tonumber(latest) then return 'late' end
if at ~= '' then
  local found = redis.pcall('PEXPIRETIME', key)
  if tonumber(found) then
    if found ~= tonumber(at) then return 'changed' end
  elseif math.abs(milliseconds() + left - tonumber(at)) > 1000 then
    return 'changed'
  end
end
if redis.call(unpack(ARGV, 7)) == 0 then return 'taken' end
return 'done'
"""
"""Before Redis 7.0 there is no PEXPIRETIME: there an expiry within a second of ``at`` is taken for it. Of the commands
that change a key which is there, RENAMENX alone returns 0."""

_NOT_NOW = ("LOADING", "BUSY ", "MASTERDOWN", "CLUSTERDOWN")
_MOVES = ("MOVED ", "ASK ", "TRYAGAIN")
_REPLICA = "READONLY "


def scripted(wish: Wish) -> Command:
    """The script call for a wish."""
    conditions = (b"" if each is None else b"%d" % each for each in (wish.idle, wish.until, wish.at))
    bounds = (wish.key.type.encode(), b"%d" % wish.least, b"%d" % wish.most)
    return (b"EVAL", SCRIPT, b"1", wish.key.name, *bounds, *conditions, *wish.command)


def outcome_of(reply: Any) -> Outcome:
    """What the reply to a script call says."""
    if isinstance(reply, hiredis.ReplyError):
        return _of_error(str(reply))
    return Outcome(reply.decode())


def _of_error(text: str) -> Outcome:
    if text.startswith(_MOVES) or _REPLICA in text:
        return Outcome.MOVED
    return Outcome.BUSY if text.startswith(_NOT_NOW) else Outcome.REFUSED


def refuses_scripts(reply: Any) -> bool:
    """Whether the user may not run EVAL, or it has another name: no key was looked at."""
    text = str(reply).lower() if isinstance(reply, hiredis.ReplyError) else ""
    return text.startswith(("noperm", "err unknown command")) and ("'eval'" in text or "`eval`" in text)


def became_replica(reply: Any) -> bool:
    """Whether the server takes no writes any more."""
    return isinstance(reply, hiredis.ReplyError) and _REPLICA in str(reply)


# Without scripts


def watching(wish: Wish) -> list[Command]:
    """Watches the key, looks at it and begins a transaction. A ``decision`` has to follow on the same connection."""
    name = wish.key.name
    return [(b"WATCH", name), (b"TYPE", name), (b"PTTL", name), (b"MULTI",)]


def decision(wish: Wish, replies: Sequence[Any]) -> tuple[Outcome, Any]:
    """By the replies to ``watching``: DONE if the transaction may go on, else what became of the key, and the reply
    that says so."""
    watched, kind, left, begun = replies
    for reply in replies:
        if isinstance(reply, hiredis.ReplyError):
            return _of_error(str(reply)), reply
    if (watched, begun) != (b"OK", b"OK") or not isinstance(left, int):
        return Outcome.REFUSED, watched
    if kind == b"none":
        return Outcome.GONE, kind
    is_same = kind == wish.key.type.encode() and wish.least <= left <= wish.most
    return (Outcome.DONE if is_same else Outcome.CHANGED), kind


def executing(wish: Wish) -> list[Command]:
    """Ends the transaction with the change."""
    return [wish.command, (b"EXEC",)]


def is_open_after(replies: Sequence[Any]) -> bool:
    """Whether the transaction is still there behind ``executing``: the user may not run EXEC."""
    ended = replies[-1]
    return isinstance(ended, hiredis.ReplyError) and not str(ended).startswith("EXECABORT")


def outcome_of_exec(wish: Wish, replies: Sequence[Any]) -> tuple[Outcome, Any]:
    """What the replies to ``executing`` say, and the one that does."""
    queued, ended = replies
    for reply in (queued, ended, *(ended if isinstance(ended, list) else ())):
        if isinstance(reply, hiredis.ReplyError):
            return _of_error(str(reply)), reply
    if ended is None:
        return Outcome.CHANGED, ended
    if ended[0]:
        return Outcome.DONE, ended
    return (Outcome.TAKEN if wish.command[0] == b"RENAMENX" else Outcome.GONE), ended
