"""The policy's decision about each command, and the context that it decides in."""

from collections.abc import Mapping
from functools import partial

from proxy.commands import slots
from proxy.commands.command import Command
from proxy.commands.table import ConnectionState
from proxy.policy.decision import NOTHING, Decision
from proxy.rules.context import NO_SLOT, Context
from proxy.rules.limit_membership import LimitMembership
from proxy.rules.verdict import Refuse, Verdict, closes
from proxy.session.policy import tenancy
from proxy.session.ports.pool_key import UNAUTHENTICATED
from proxy.session.session import Session
from proxy.session.state import POOLED

_FEW_CALLS = 8
"""A script with so few is no more than other commands of its size."""
_MOST_CALLS = 200
"""In one turn of the loop, for one client: some milliseconds. EVALSHA is short, and many fit into one read."""


def context_of(session: Session, no_wait: str = "", prepaid: Mapping[str, int] | None = None) -> Context:
    """The client's context now; ``no_wait`` says why no procedure may run, ``prepaid`` how many bytes are paid for."""
    running = session.state.transaction
    return Context(
        session.user_name,
        session.names.client.decode("utf-8", "replace"),
        session.key.database if running is None else running.database,
        running is not None,
        session.ports.route.now(),
        session.ports.route.chance,
        session.effective_policy.compiled.app,
        slot=session.slot,
        address=session.origin.host,
        no_wait="it is inside MULTI" if running is not None else no_wait,
        prepaid=prepaid,
        at_primary=not reads_from_replicas(session),
        tenant=tenancy.prefix_of(session),
    )


def reads_from_replicas(session: Session) -> bool:
    """Whether replicas may answer reads of this client now: it has no state on a connection, and may share those to
    replicas."""
    return session.state is POOLED and session.shares_replicas()


def judge(session: Session, command: Command, no_wait: str = "", prepaid: Mapping[str, int] | None = None) -> Decision:
    """The policy's decision; hits of its rules are reported."""
    compiled = session.effective_policy.compiled
    if not compiled.has_opinion(command.spec):
        return NOTHING
    context = context_of(session, no_wait, prepaid)
    if compiled.limits:
        context.surplus = join_limits(session).surplus
    decision = compiled.judge(command, context)
    if command.judged_calls > _FEW_CALLS:
        note_calls(session, command.judged_calls)
    if context.surplus and session.limit_membership is not None and not closes(decision.verdict):
        session.limit_membership.told(hit.rule for hit in decision.hits)
        session.intake.token_sets = session.limit_membership.token_sets
    if decision.hits:
        session.ports.reports.report(decision.hits, command, session)
    if compiled.follows_slots and session.slot == NO_SLOT and type(decision.verdict) is not Refuse:
        session.slot = _slot_given_by(session, command)
    return decision


def note_calls(session: Session, number: int) -> None:
    """Count calls of scripts that were judged for the client, until the turn is over."""
    if not session.judged_calls:
        session.ports.route.after(0.0, partial(_begin_turn, session))
    session.judged_calls += number


def had_its_turn(session: Session) -> bool:
    """Whether so many calls of scripts were judged for the client that others come first."""
    return session.judged_calls > _MOST_CALLS


def _begin_turn(session: Session) -> None:
    session.judged_calls = 0


def most_in_page(session: Session, command: Command) -> int | None:
    """The most keys that the policy allows in a page of SCAN that Keyrail makes itself; None if it does not say."""
    return session.effective_policy.compiled.most_in_page(command, context_of(session))


def join_limits(session: Session) -> LimitMembership:
    """Count the client in under each limit, if it is not yet."""
    membership = session.limit_membership
    if membership is None:
        membership = session.limit_membership = session.effective_policy.compiled.memberships.join(
            session.sender, session.user_name, session.names.client, session.origin.host, lambda: context_of(session)
        )
        session.intake.token_sets = membership.token_sets
    return membership


def end_if_closed_by(session: Session, verdict: Verdict) -> bool:
    """Close the client if the verdict says so. A transaction is ended first, as others may share its upstream."""
    if not closes(verdict) or session.state.transaction is not None:
        return False
    session.close_when_drained("limited")
    return True


def end_if_told(session: Session) -> None:
    """Close the client if a rule that has come into force says so, whatever it waits for."""
    compiled = session.effective_policy.compiled
    if compiled.ending and session.key.user != UNAUTHENTICATED:
        context = context_of(session)
        if any(rule.ends(context) for rule in compiled.ending):
            session.close("limited")


def count_keys(session: Session, command: Command) -> None:
    """Count the keys of a command that goes on."""
    if session.effective_policy.compiled.policy.count_keys:
        counters = session.intake.config.counters
        for key in command.known_keys:
            counters.add(key.name, 0, len(key.name), key.write)


def _slot_given_by(session: Session, command: Command) -> int:
    # The slot that a command which goes on gives to the transaction that it is in, or comes before.
    watches = command.spec.state is ConnectionState.WATCH
    if watches is (session.state.transaction is not None) or not command.known_keys:
        return NO_SLOT
    return slots.slot_of(tenancy.prefix_of(session) + command.known_keys[0].name)
