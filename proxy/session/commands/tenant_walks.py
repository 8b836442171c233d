"""What a tenant asks about all keys, answered about its own: KEYS, DBSIZE and RANDOMKEY.

Keyrail walks over the tenant's keys with SCAN, on a connection of its own, within a budget. Keys of others lie between
them and cost time, too. So the count of a long walk answers for a while (``counted_keys``), and where the budget is too
small, a count of at most ``count_age`` is better than none. RANDOMKEY first asks Redis for some keys: one of the
tenant's own among them is as random as that of a walk.
"""

from collections.abc import Callable
from functools import partial

from proxy.commands.command import Command
from proxy.commands.tenant_commands import RequestNames
from proxy.hotpath.upstream.in_flight import EDIT, InFlightEntry
from proxy.policy.decision import Decision
from proxy.policy.tenants import Tenant
from proxy.rules.key_walk import Stopped, find_keys, walk
from proxy.rules.verdict import Answer, Procedure, Refuse, Steps
from proxy.session import reply_mode
from proxy.session.commands import follow_ups, switching
from proxy.session.policy import procedure, tenancy
from proxy.session.ports.counted_keys import Place
from proxy.session.ports.ports import Questions
from proxy.session.progress import Step
from proxy.session.running_procedure import Answered
from proxy.session.session import Session
from proxy.session.state import Pinned
from proxy.tenants.messages import glob_escaped
from proxy.tenants.requests import arity_error, walk_of
from proxy.wire.decode import read_reply
from proxy.wire.encode import encode_array, encode_bulk, encode_command, encode_error, encode_null

_TRIES = 16
"""RANDOMKEY, before a walk."""


def answered(session: Session, tenant: Tenant, command: Command) -> Step[Decision]:
    """What becomes of the command, once its walk is over."""
    if error := arity_error(command):
        return Decision(Refuse(error))
    refuse = partial(_refused, command)
    if session.state.transaction is not None:
        return Decision(refuse("it is inside MULTI"))
    yield from switching.until_drained(session)  # what the client has written before counts
    session.intake.used_prefix = True
    what = walk_of(command)
    assert what is not None, "others are sent to Redis"
    walks = _WALKS[what](session, tenant, command, refuse)
    end = yield from procedure.ended(session, walks, asking(session))
    if isinstance(end, Exception):
        raise end
    if isinstance(end, Refuse) and what is RequestNames.COUNT:
        place, now = _place(session, tenant), session.ports.route.now()
        number = session.ports.counted.recent(place, now, tenant.terms.count_age)
        end = end if number is None else _number(number)
    return Decision(end)


def asking(session: Session, *, writes: bool = False) -> Callable[[Questions, Answered], None]:
    """How the questions of a walk are sent, or what it ``writes``; with a cluster upstream, it goes over nodes."""
    return procedure.asking(session) if session.ports.nodes is not None else partial(_ask, session, writes)


def _ask(session: Session, writes: bool, questions: Questions, answered: Answered) -> None:
    # The only connection of a user that clients log in as may be this client's own. It carries the questions where they
    # change nothing of what it holds, and nobody else could use it meanwhile.
    state = session.state
    untold = writes and session.tracks_no_loop
    if type(state) is not Pinned or untold or not _carries(session, state):
        session.ports.queries.ask(session.place(), questions, answered)
        return
    frames: list[bytes] = []

    def come(frame: bytes) -> bytes:
        frames.append(frame)
        if len(frames) == len(questions):
            session.ports.route.after(0.0, partial(answered, frames))
        return b""

    for question in questions:
        entry = InFlightEntry(session.sender, 1, EDIT, come)
        session.sender.issue(state.upstream, encode_command(question), entry)


def _carries(session: Session, state: Pinned) -> bool:
    open_state = state.unit is not None or state.blocked or state.reply_mode != reply_mode.ON
    confined = state.subscriptions is not None and state.subscriptions.confines()
    own_login = session.key.user is not None and session.no_hidden_commands in ("", follow_ups.TRACKS)
    return own_login and not (open_state or confined)


def _keys(session: Session, tenant: Tenant, command: Command, refuse: Callable[[str], Refuse]) -> Procedure:
    budget = tenant.terms.walk

    def steps() -> Steps:
        found = yield from find_keys(command.argv[1], budget)
        return found.end(refuse) if isinstance(found, Stopped) else Answer(encode_array(found))

    return tenancy.asked_for(session, Procedure(steps, budget.time, refuse))


def _count(session: Session, tenant: Tenant, _command: Command, refuse: Callable[[str], Refuse]) -> Procedure:
    budget, counted, now = tenant.terms.walk, session.ports.counted, session.ports.route.now
    place, begun = _place(session, tenant), now()

    def steps() -> Steps:
        number = counted.spared(place, begun, tenant.terms.count_age)
        if number is not None:
            return _number(number)
        found = 0

        def page(names: list[bytes]) -> str:
            nonlocal found
            found += len(names)
            return ""

        stopped = yield from walk(all_of(tenant), budget.count, page)
        if stopped is not None:
            return stopped.end(refuse)
        counted.note(place, found, begun, now())
        return _number(found)

    return Procedure(steps, budget.time, refuse)


def _any_key(session: Session, tenant: Tenant, _command: Command, refuse: Callable[[str], Refuse]) -> Procedure:
    budget, chance = tenant.terms.walk, session.ports.route.chance
    protocol = session.key.protocol

    def steps() -> Steps:
        for reply in map(read_reply, (yield [(b"RANDOMKEY",)] * _TRIES)):
            if isinstance(reply, bytes) and reply.startswith(tenant.prefix):
                return Answer(encode_bulk(reply.removeprefix(tenant.prefix)))
        found, seen = b"", 0

        def page(names: list[bytes]) -> str:
            nonlocal found, seen
            for name in names:
                seen += 1
                found = name if chance() * seen < 1 else found
            return ""

        stopped = yield from walk(all_of(tenant), budget.count, page)
        if stopped is not None:
            return stopped.end(refuse)
        return Answer(encode_bulk(found.removeprefix(tenant.prefix)) if seen else encode_null(protocol))

    return Procedure(steps, budget.time, refuse)


_WALKS = {RequestNames.PATTERN: _keys, RequestNames.COUNT: _count, RequestNames.ANY_KEY: _any_key}


def _place(session: Session, tenant: Tenant) -> Place:
    return session.key.database, tenant.prefix, session.origin.listener


def all_of(tenant: Tenant) -> bytes:
    """The pattern that its keys match, and no others."""
    return glob_escaped(tenant.prefix) + b"*"


def _number(number: int) -> Answer:
    return Answer(b":%d\r\n" % number)


def _refused(command: Command, why: str) -> Refuse:
    return Refuse(
        encode_error(
            f"DENIED keyrail: {command.name} is not answered: Keyrail walks over the keys of a tenant, and {why}; "
            "use SCAN with MATCH and COUNT, or ask whoever maintains the policy for more time (tenants.walk)"
        )
    )
