"""The policy's decision about each command, and the context that it decides in."""

from collections.abc import Mapping

from proxy.commands import slots
from proxy.commands.command import Command
from proxy.commands.table import ConnectionState
from proxy.hotpath.intake import ENDED, TAKEN
from proxy.policy.compile import NOTHING
from proxy.policy.decision import Decision
from proxy.rules.context import NO_SLOT, Context
from proxy.rules.limit_membership import LimitMembership
from proxy.rules.verdict import Refuse, Verdict, closes
from proxy.session.session import Session


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
    )


def judge(session: Session, command: Command, no_wait: str = "", prepaid: Mapping[str, int] | None = None) -> Decision:
    """The policy's decision; hits of its rules are reported."""
    compiled = session.effective_policy.compiled
    if not compiled.has_opinion(command.spec):
        return NOTHING
    context = context_of(session, no_wait, prepaid)
    if compiled.limits:
        join_limits(session, context)
    decision = compiled.judge(command, context)
    if context.surplus and session.limit_membership is not None and not closes(decision.verdict):
        session.limit_membership.told(hit.rule for hit in decision.hits)
        session.intake.token_sets = session.limit_membership.token_sets
    if decision.hits:
        session.ports.reports.report(decision.hits, command, session)
    if compiled.follows_slots and session.slot == NO_SLOT and type(decision.verdict) is not Refuse:
        session.slot = _slot_given_by(session, command)
    return decision


def join_limits(session: Session, context: Context) -> None:
    """Count the client in under each limit, if it is not yet; ``context`` learns which have one too many."""
    if session.limit_membership is None:
        session.limit_membership = LimitMembership(session.effective_policy.compiled.limits, context, session.sender)
        session.intake.token_sets = session.limit_membership.token_sets
    context.surplus = session.limit_membership.surplus


def end_if_closed_by(session: Session, verdict: Verdict) -> int:
    """Close the client if the verdict says so. A transaction is ended first, as others may share its upstream."""
    if not closes(verdict) or session.state.transaction is not None:
        return TAKEN
    session.close_when_drained("limited")
    return ENDED


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
    return slots.slot_of(command.known_keys[0].name)
