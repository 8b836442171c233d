"""SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE and their opposites.

One command has as many confirmations as it names channels; a bare UNSUBSCRIBE has one for each channel, or a single
null one. RESP3 sends confirmations and messages as pushes; RESP2 sends both as arrays, which look like replies. So in
RESP2 a subscription begins only when no other reply is pending, and while there is one every array is read as far as
its first word. The client stays pinned until its last subscription ends.
"""

from typing import Any

from proxy.commands.table import ConnectionState
from proxy.hotpath.upstream.in_flight import CONFIRM
from proxy.session.commands import client_reply, switching
from proxy.session.commands.handler import Handler
from proxy.session.item import JudgedCommand
from proxy.session.policy import tenancy
from proxy.session.session import Session
from proxy.session.subscription import Subscriptions


def _change(session: Session, item: JudgedCommand) -> None:
    argv = item.command.argv
    upstream = switching.to_private(session)
    verb = item.command.name.lower().encode()
    closing = Subscriptions.closes(verb)
    subscriptions = session.state.subscriptions
    if subscriptions is None or not (closing or subscriptions.opening):
        # Nothing could follow the commands before this one once Redis lets the client do little else.
        switching.drained(session)
    if subscriptions is None:
        edit = tenancy.message_edit(session.tenant)
        subscriptions = session.on_its_own.subscriptions = Subscriptions(session.key.protocol, edit)
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
        return
    due = (-1 if closing else 1) if bare else len(argv) - 1
    count: Any = subscriptions.outstanding
    session.sender.submit_with_action(item.raw, CONFIRM, (verb, lambda: count(verb)), due)


HANDLERS: dict[ConnectionState, Handler] = {
    ConnectionState.SUBSCRIBE: _change,
    ConnectionState.UNSUBSCRIBE: _change,
}
