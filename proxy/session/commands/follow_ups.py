"""Hidden follow-ups: commands that the reply to a client's command makes necessary, such as EXPIRE for a new key.

A follow-up is sent as soon as that reply is there, on the connection on which its command ran. It goes elsewhere, on a
connection of Keyrail's own, where that one can't carry it: it is lost, holds an unfinished command, speaks for another
user by now, or a hidden command on it would have no reply or take a one-shot state from the client's next. It goes
there, too, if its connection is lost before the reply to it. With a cluster upstream, a command that was sent again ran
at another node than it was sent to first: what follows goes there, since the first node may still have a copy of the
key. What a node refuses because of its slot is sent again, also for a client that has left. Nothing is dropped: what
can't be sent anywhere is counted as skipped.

Commands that change what their connection does wait until no follow-up is outstanding (``undecided``). So there are
two that have to wait:

    renewals between WATCH and EXEC    An EXPIRE for a key that the client watches, behind a command that may have left
                                       that key alone, would make EXEC fail. Of each key only the last one waits. (What
                                       follows a write to the key harms nobody: that write itself makes EXEC fail.)
    behind SELECT or AUTH in a MULTI   Which database the connection is in is known when EXEC has been answered.

No more than ``MOST_WAITING`` wait for one client: then its commands that have follow-ups are refused. When they
may go, so many at a time are sent, and others' commands come between them.
"""

from collections.abc import Sequence
from functools import partial

from proxy.commands.command import Command
from proxy.commands.error_texts import ASKS, FOLLOW_UP_ELSEWHERE
from proxy.commands.slots import slot_of
from proxy.hotpath.upstream.in_flight import HIDE, NOTE, InFlightEntry, ReplySink
from proxy.policy.decision import What
from proxy.rules.verdict import Renewal
from proxy.session import reply_mode
from proxy.session.item import FollowUp
from proxy.session.ports.pool_key import PoolKey
from proxy.session.session import Session
from proxy.session.state import ended
from proxy.wire.encode import OK, encode_command, encode_error

MOST_WAITING = 1024
TRACKS = "the client tracks keys"
"""Why no hidden command goes with its reads."""
CHOOSES = "the client tracks keys that it chooses"
"""The same. What follows its writes goes elsewhere: CLIENT CACHING is about the next command of the connection, which
has to be the client's own."""
_AT_ONCE = 64
_NOBODY = ReplySink()
_MULTI, _EXEC, _DISCARD = encode_command([b"MULTI"]), encode_command([b"EXEC"]), encode_command([b"DISCARD"])
_ASKING = encode_command([b"ASKING"])
_MOST_TIMES = 20
_AGAIN_SECONDS = 0.1
_NO_CONNECTION = "no connection to Redis could be had for it"


def take(session: Session, follow_up: FollowUp) -> None:
    """Send a follow-up now, or when nothing stands against it."""
    if _waits(session, follow_up):
        if session.deferred is None:
            session.deferred = {}
        session.deferred[follow_up.name] = follow_up
    elif _may_carry(session, follow_up):
        _send(session, follow_up)
    else:
        send_elsewhere(session, follow_up, follow_up.key, asks=follow_up.asks)


def catch_up(session: Session, most: int = _AT_ONCE) -> bool:
    """Send follow-ups that waited and need not wait any more; whether a reply is pending now."""
    if session.state.watching is not None or session.state.transaction is not None:
        return False
    sent = 0
    while session.deferred and sent < most:
        follow_up = session.deferred.pop(next(iter(session.deferred)))
        if _may_carry(session, follow_up):
            _send(session, follow_up)
            sent += 1
        else:
            send_elsewhere(session, follow_up, follow_up.key, asks=follow_up.asks)
    return session.sender.pending_replies > 0


def leave(session: Session) -> None:
    """The client has left or begun anew: its WATCH or MULTI is over, and follow-ups that waited for that are sent."""
    upstream = session.state.upstream
    if upstream is None:
        return
    if session.state.blocked:
        # Nothing would run behind the command that blocks, and Redis might pop an element for a client that is gone.
        session.ports.pools.discard(upstream)
    elif session.state.transaction is not None and upstream.partial is None and not upstream.closed:
        # Otherwise Redis would queue follow-ups of pending replies in it.
        replies = (InFlightEntry(_NOBODY, 1, HIDE, None),) if session.state.reply_mode == reply_mode.ON else ()
        session.sender.issue(upstream, _DISCARD, *replies)
    session.state = ended(session.state)
    upstream.unit = None
    catch_up(session)


def undecided(session: Session) -> bool:
    """Whether something may still have to follow commands that were sent."""
    session.may_have_follow_ups = session.may_have_follow_ups and session.sender.pending_replies > 0
    return session.may_have_follow_ups


def overflow(session: Session) -> bytes | None:
    """The error for a command that would have follow-ups, where too many wait already; otherwise None."""
    if session.deferred is None or len(session.deferred) < MOST_WAITING or session.state.transaction is not None:
        return None
    return encode_error(
        f"DENIED keyrail: the lifetimes of {len(session.deferred)} keys that this connection watches are to be renewed "
        "after EXEC, and no more may wait for that; send EXEC, DISCARD or UNWATCH first"
    )


def silent(session: Session) -> str:
    """Why nothing may go along with commands on the client's connection; empty where it may."""
    return "no reply will come" if session.state.reply_mode != reply_mode.ON else session.no_hidden_commands


def _waits(session: Session, follow_up: FollowUp) -> bool:
    if session.gone or follow_up.upstream is not session.state.upstream:
        return False
    if follow_up.switches is not None and follow_up.switches.queued:
        return True
    watching = session.state.watching
    return watching is not None and isinstance(follow_up.argv, Renewal) and watching.watches(follow_up.argv.key)


def _may_carry(session: Session, follow_up: FollowUp) -> bool:
    # Whether the connection on which the command ran can carry what follows.
    upstream = follow_up.upstream
    if upstream.closed or not upstream.admits(session.sender) or upstream.owner not in (None, session.sender):
        return False
    subscriptions = session.state.subscriptions
    confined = subscriptions is not None and subscriptions.protocol == 2 and any(subscriptions.sets)
    if session.gone:
        switches_database = follow_up.switches is not None and follow_up.switches.queued
        return session.state.reply_mode == reply_mode.ON and not confined and not switches_database
    if upstream is not session.state.upstream:
        return True
    free = session.state.transaction is None and not confined and silent(session) in ("", TRACKS)
    return free and session.key.user == follow_up.key.user


def _send(session: Session, follow_up: FollowUp) -> None:
    upstream = follow_up.upstream
    raw = encode_command(list(follow_up.argv))
    moved = upstream is session.state.upstream and session.key.database != follow_up.key.database

    def answered(frame: bytes) -> None:
        # Of a unit's array, the member behind that of SELECT.
        conclude(session, follow_up, frame.split(b"\r\n")[2] + b"\r\n" if frame.startswith(b"*3") else frame)
        if session.deferred:
            catch_up(session, 1)

    replies = [InFlightEntry(session.sender, 1, NOTE, answered)]
    # Redis may have run it or not: to run it again does no harm.
    replies[0].on_lost = partial(send_elsewhere, session, follow_up, follow_up.key, asks=follow_up.asks)
    if moved:
        there, back = (encode_command([b"SELECT", b"%d" % key.database]) for key in (follow_up.key, session.key))
        raw = _MULTI + there + raw + back + _EXEC
        replies.insert(0, InFlightEntry(_NOBODY, 4, HIDE, None))
    if follow_up.asks:
        raw = _ASKING + raw
        replies.insert(0, InFlightEntry(_NOBODY, 1, HIDE, None))
    wrote = session.sender.wrote
    session.sender.issue(upstream, raw, *replies)
    session.sender.wrote = wrote  # this write is not the client's


def send_elsewhere(session: Session, follow_up: FollowUp, key: PoolKey, times: int = 0, *, asks: bool = False) -> None:
    """Send a follow-up on a connection of Keyrail's own."""

    # As the same user if there is a connection for that, else with the route's own login.
    def answered(replies: Sequence[bytes] | None) -> None:
        if replies is not None:
            conclude(session, follow_up._replace(key=key), replies[-1], times)
        elif key.user is not None:
            send_elsewhere(session, follow_up, key._replace(user=None), times, asks=asks)
        else:
            _report(session, follow_up, "skipped", _NO_CONNECTION)

    questions = [[b"ASKING"], follow_up.argv] if asks else [follow_up.argv]
    session.ports.queries.ask(key if key.user is not None else key._replace(protocol=2), questions, answered)


def conclude(session: Session, follow_up: FollowUp, frame: bytes, times: int = 0) -> None:
    """Count what has become of a follow-up; or send it again, with a cluster upstream, where a node has refused it
    because of its slot: nobody else would."""
    if session.ports.nodes is not None and FOLLOW_UP_ELSEWHERE.begin(frame) and times < _MOST_TIMES:
        session.ports.route.after(_AGAIN_SECONDS, partial(_send_again, session, follow_up, frame, times + 1))
    elif frame.startswith(b"-"):
        _report(session, follow_up, "error", frame[1:].split(b" ", 1)[0].decode("ascii", "replace").rstrip())
    elif frame in (b":1\r\n", OK):
        _report(session, follow_up, "followed", "")


def _send_again(session: Session, follow_up: FollowUp, frame: bytes, times: int) -> None:
    nodes, key = session.ports.nodes, follow_up.key
    assert nodes is not None, "a node has refused it"
    named = nodes.redirected(frame, key.node)
    names = Command(session.effective_policy.table, list(follow_up.argv)).known_keys
    node = named or (nodes.owner(slot_of(names[0].name)) if names else None)
    if node is None:
        conclude(session, follow_up, frame, times)
    else:
        asks = named is not None and ASKS.hinted(frame)
        send_elsewhere(session, follow_up, key._replace(node=node), times, asks=asks)


def _report(session: Session, follow_up: FollowUp, what: What, detail: str) -> None:
    session.ports.reports.report([follow_up.hidden.hit(what, detail)], follow_up.command, session)
