"""SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE and their opposites.

One command has as many confirmations as it names channels; a bare UNSUBSCRIBE has one for each channel, or a single
null one. RESP3 sends confirmations and messages as pushes; RESP2 sends both as arrays, which look like replies. So in
RESP2 a subscription begins only when no other reply is pending, and while there is one every array is read as far as
its first word. The client stays pinned until its last subscription ends.
"""

from collections.abc import Callable
from typing import Any

from proxy.commands.table import ConnectionState
from proxy.hotpath.intake.intake import TAKEN, WAIT
from proxy.hotpath.upstream.in_flight import CONFIRM
from proxy.session.commands import client_reply, switching
from proxy.session.item import JudgedCommand
from proxy.session.session import Session
from proxy.session.subscription import Subscriptions


def _change(session: Session, item: JudgedCommand) -> int:
    argv = item.command.argv
    upstream = switching.to_private(session)
    if upstream is None:
        return WAIT
    verb = item.command.name.lower().encode()
    closing = Subscriptions.closes(verb)
    subscriptions = session.state.subscriptions
    if session.sender.pending_replies > 0 and (subscriptions is None or not (closing or subscriptions.opening)):
        # Nothing could follow the commands before this one once Redis lets the client do little else.
        switching.wait_until_drained(session)
        return WAIT
    if subscriptions is None:
        subscriptions = session.on_its_own.subscriptions = Subscriptions(session.key.protocol)
        upstream.follow(subscriptions)
    bare = len(argv) == 1
    subscriptions.opening = not closing
    subscriptions.asked += 1
    session.sender.notify_when_idle = True
    session.sender.forwarded += 1
    # Redis confirms even while CLIENT REPLY is OFF or SKIP, which the command uses up like any other.
    silent = client_reply.falls_on(session)
    if bare and not closing and silent:
        session.sender.issue(upstream, item.raw)
        return TAKEN
    due = (-1 if closing else 1) if bare else len(argv) - 1
    count: Any = subscriptions.outstanding
    session.sender.submit_with_action(item.raw, CONFIRM, (verb, lambda: count(verb)), due)
    return TAKEN


HANDLERS: dict[ConnectionState, Callable[[Session, JudgedCommand], int]] = {
    ConnectionState.SUBSCRIBE: _change,
    ConnectionState.UNSUBSCRIBE: _change,
}
