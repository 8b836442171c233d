"""Hidden follow-ups: commands that the reply to a client's command makes necessary, such as EXPIRE for a new key.

A follow-up is sent as soon as that reply is there, on the connection on which its command ran. It goes elsewhere, on a
connection of Keyrail's own, where that one can't carry it: it is lost, holds an unfinished command, speaks for
another user by now, or a hidden command on it would have no reply or take a one-shot state from the client's next.
With a cluster upstream, a command that was sent again ran at another node than it was sent to first: what follows goes
there, since the first node may still have a copy of the key. What a node refuses because of its slot is sent again,
also for a client that has left. Nothing is dropped: what can't be sent anywhere is counted as skipped.

Commands that change what their connection does wait until no follow-up is outstanding (``undecided``). So there are
two that have to wait:

    renewals between WATCH and EXEC    An EXPIRE for a key that the client watches, behind a command that may have left
                                       that key alone, would make EXEC fail. Of each key only the last one waits. (What
                                       follows a write to the key harms nobody: that write itself makes EXEC fail.)
    behind SELECT or AUTH in a MULTI   Which database the connection is in is known when EXEC has been answered.

No more than ``MOST_WAITING`` wait for one client: then its commands that have follow-ups are refused. When they
may go, so many at a time are sent, and others' commands come between them.
"""

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Protocol

from proxy.commands.command import Command
from proxy.commands.error_texts import ASKS, FOLLOW_UP_ELSEWHERE
from proxy.commands.slots import slot_of
from proxy.hotpath.in_flight import HIDE, NOTE, InFlightEntry, ReplySink
from proxy.policy.decision import What
from proxy.rules.verdict import Renewal
from proxy.session import reply_mode
from proxy.session.item import FollowUp
from proxy.session.pool_key import PoolKey
from proxy.session.ports import ReportedClient
from proxy.session.state import ClientState, ended
from proxy.session.views import ConnectedClient
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


class FollowedClient(ReportedClient, ConnectedClient, Protocol):
    """A session, as far as hidden commands follow its own."""

    state: ClientState
    may_have_follow_ups: bool
    no_hidden_commands: str
    deferred: dict[Hashable, FollowUp] | None

    @property
    def gone(self) -> bool:
        """Whether it has left."""


def take(client: FollowedClient, follow_up: FollowUp) -> None:
    """Send a follow-up now, or when nothing stands against it."""
    if _waits(client, follow_up):
        if client.deferred is None:
            client.deferred = {}
        client.deferred[follow_up.name] = follow_up
    elif _may_carry(client, follow_up):
        _send(client, follow_up)
    else:
        send_elsewhere(client, follow_up, follow_up.key, asks=follow_up.asks)


def catch_up(client: FollowedClient, most: int = _AT_ONCE) -> bool:
    """Send follow-ups that waited and need not wait any more; whether a reply is pending now."""
    if client.state.watching is not None or client.state.transaction is not None:
        return False
    sent = 0
    while client.deferred and sent < most:
        follow_up = client.deferred.pop(next(iter(client.deferred)))
        if _may_carry(client, follow_up):
            _send(client, follow_up)
            sent += 1
        else:
            send_elsewhere(client, follow_up, follow_up.key, asks=follow_up.asks)
    return client.sender.pending_replies > 0


def leave(client: FollowedClient) -> None:
    """The client has left or begun anew: its WATCH or MULTI is over, and follow-ups that waited for that are sent."""
    upstream = client.state.upstream
    if upstream is None:
        return
    if client.state.blocked:
        # Nothing would run behind the command that blocks, and Redis might pop an element for a client that is gone.
        client.ports.pools.discard(upstream)
    elif client.state.transaction is not None and upstream.partial is None and not upstream.closed:
        # Otherwise Redis would queue follow-ups of pending replies in it.
        replies = (InFlightEntry(_NOBODY, 1, HIDE, None),) if client.state.reply_mode == reply_mode.ON else ()
        client.sender.issue(upstream, _DISCARD, *replies)
    client.state = ended(client.state)
    upstream.unit = None
    catch_up(client)


def undecided(client: FollowedClient) -> bool:
    """Whether something may still have to follow commands that were sent."""
    client.may_have_follow_ups = client.may_have_follow_ups and client.sender.pending_replies > 0
    return client.may_have_follow_ups


def overflow(client: FollowedClient) -> bytes | None:
    """The error for a command that would have follow-ups, where too many wait already; otherwise None."""
    if client.deferred is None or len(client.deferred) < MOST_WAITING or client.state.transaction is not None:
        return None
    return encode_error(
        f"DENIED keyrail: the lifetimes of {len(client.deferred)} keys that this connection watches are to be renewed "
        "after EXEC, and no more may wait for that; send EXEC, DISCARD or UNWATCH first"
    )


def silent(client: FollowedClient) -> str:
    """Why nothing may go along with commands on the client's connection; empty where it may."""
    return "no reply will come" if client.state.reply_mode != reply_mode.ON else client.no_hidden_commands


def _waits(client: FollowedClient, follow_up: FollowUp) -> bool:
    if client.gone or follow_up.upstream is not client.state.upstream:
        return False
    if follow_up.switches is not None and follow_up.switches.queued:
        return True
    watching = client.state.watching
    return watching is not None and isinstance(follow_up.argv, Renewal) and watching.watches(follow_up.argv.key)


def _may_carry(client: FollowedClient, follow_up: FollowUp) -> bool:
    # Whether the connection on which the command ran can carry what follows.
    upstream = follow_up.upstream
    if upstream.closed or not upstream.admits(client.sender) or upstream.owner not in (None, client.sender):
        return False
    subscriptions = client.state.subscriptions
    confined = subscriptions is not None and subscriptions.protocol == 2 and any(subscriptions.sets)
    if client.gone:
        switches_database = follow_up.switches is not None and follow_up.switches.queued
        return client.state.reply_mode == reply_mode.ON and not confined and not switches_database
    if upstream is not client.state.upstream:
        return True
    free = client.state.transaction is None and not confined and silent(client) in ("", TRACKS)
    return free and client.key.user == follow_up.key.user


def _send(client: FollowedClient, follow_up: FollowUp) -> None:
    upstream = follow_up.upstream
    raw = encode_command(list(follow_up.argv))
    moved = upstream is client.state.upstream and client.key.database != follow_up.key.database

    def answered(frame: bytes) -> None:
        # Of a unit's array, the member behind that of SELECT.
        conclude(client, follow_up, frame.split(b"\r\n")[2] + b"\r\n" if frame.startswith(b"*3") else frame)
        if client.deferred:
            catch_up(client, 1)

    replies = [InFlightEntry(client.sender, 1, NOTE, answered)]
    if moved:
        there, back = (encode_command([b"SELECT", b"%d" % key.database]) for key in (follow_up.key, client.key))
        raw = _MULTI + there + raw + back + _EXEC
        replies.insert(0, InFlightEntry(_NOBODY, 4, HIDE, None))
    if follow_up.asks:
        raw = _ASKING + raw
        replies.insert(0, InFlightEntry(_NOBODY, 1, HIDE, None))
    wrote = client.sender.wrote
    client.sender.issue(upstream, raw, *replies)
    client.sender.wrote = wrote  # this write is not the client's


def send_elsewhere(
    client: FollowedClient, follow_up: FollowUp, key: PoolKey, times: int = 0, *, asks: bool = False
) -> None:
    """Send a follow-up on a connection of Keyrail's own."""

    # As the same user if there is a connection for that, else with the route's own login.
    def answered(replies: Sequence[bytes] | None) -> None:
        if replies is not None:
            conclude(client, follow_up._replace(key=key), replies[-1], times)
        elif key.user is not None:
            send_elsewhere(client, follow_up, key._replace(user=None), times, asks=asks)
        else:
            _report(client, follow_up, "skipped", _NO_CONNECTION)

    questions = [[b"ASKING"], follow_up.argv] if asks else [follow_up.argv]
    client.ports.queries.ask(key if key.user is not None else key._replace(protocol=2), questions, answered)


def conclude(client: FollowedClient, follow_up: FollowUp, frame: bytes, times: int = 0) -> None:
    """Count what has become of a follow-up; or send it again, with a cluster upstream, where a node has refused it
    because of its slot: nobody else would."""
    if client.ports.nodes is not None and FOLLOW_UP_ELSEWHERE.begin(frame) and times < _MOST_TIMES:
        client.ports.route.after(_AGAIN_SECONDS, partial(_send_again, client, follow_up, frame, times + 1))
    elif frame.startswith(b"-"):
        _report(client, follow_up, "error", frame[1:].split(b" ", 1)[0].decode("ascii", "replace").rstrip())
    elif frame in (b":1\r\n", OK):
        _report(client, follow_up, "followed", "")


def _send_again(client: FollowedClient, follow_up: FollowUp, frame: bytes, times: int) -> None:
    nodes, key = client.ports.nodes, follow_up.key
    assert nodes is not None, "a node has refused it"
    named = nodes.redirected(frame, key.node)
    names = Command(client.effective_policy.table, list(follow_up.argv)).known_keys
    node = named or (nodes.owner(slot_of(names[0].name)) if names else None)
    if node is None:
        conclude(client, follow_up, frame, times)
    else:
        asks = named is not None and ASKS.hinted(frame)
        send_elsewhere(client, follow_up, key._replace(node=node), times, asks=asks)


def _report(client: FollowedClient, follow_up: FollowUp, what: What, detail: str) -> None:
    client.ports.reports.report([follow_up.hidden.hit(what, detail)], follow_up.command, client)
