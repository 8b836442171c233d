"""The policy's decision about each command, and the context that it decides in."""

from collections.abc import Mapping
from functools import partial
from typing import Protocol

from proxy.commands import slots
from proxy.commands.command import Command
from proxy.commands.table import ConnectionState
from proxy.hotpath.intake import ENDED, TAKEN
from proxy.policy.compile import NOTHING
from proxy.policy.decision import Decision
from proxy.rules.context import NO_SLOT, Context
from proxy.rules.limit_membership import LimitMembership
from proxy.rules.verdict import Refuse, Verdict, closes
from proxy.session.pool_key import UNAUTHENTICATED, PoolKey
from proxy.session.ports import ReportedClient, RoutePort
from proxy.session.state import POOLED
from proxy.session.views import ConnectedClient

_FEW_CALLS = 8
"""A script with so few is no more than other commands of its size."""
_MOST_CALLS = 200
"""In one turn of the loop, for one client: some milliseconds. EVALSHA is short, and many fit into one read."""


class JudgedClient(ReportedClient, ConnectedClient, Protocol):
    """A session, as far as the policy decides about its commands. ``slot`` is its transaction's, where a rule asks."""

    slot: int
    limit_membership: LimitMembership | None
    judged_calls: int
    """Calls of scripts that were judged for it in this turn of the loop."""

    def close_when_drained(self, cause: str) -> None:
        """Read no more of the client, and close it when no reply is pending."""

    def close(self, cause: str) -> None:
        """Close it at once."""


def context_of(client: JudgedClient, no_wait: str = "", prepaid: Mapping[str, int] | None = None) -> Context:
    """The client's context now; ``no_wait`` says why no procedure may run, ``prepaid`` how many bytes are paid for."""
    running = client.state.transaction
    return Context(
        client.user_name,
        client.names.client.decode("utf-8", "replace"),
        client.key.database if running is None else running.database,
        running is not None,
        client.ports.route.now(),
        client.ports.route.chance,
        client.effective_policy.compiled.app,
        slot=client.slot,
        address=client.origin.host,
        no_wait="it is inside MULTI" if running is not None else no_wait,
        prepaid=prepaid,
        at_primary=not reads_from_replicas(client),
    )


def reads_from_replicas(client: JudgedClient) -> bool:
    """Whether replicas may answer reads of this client now: it has no state on a connection, and may share those to
    replicas."""
    return client.state is POOLED and shares_replicas(client.key, client.ports.route)


def shares_replicas(key: PoolKey, route: RoutePort) -> bool:
    """Whether clients of this pool may read from replicas: the connections to them are of the route's own user."""
    return key.user is None and route.pooling


def judge(
    client: JudgedClient, command: Command, no_wait: str = "", prepaid: Mapping[str, int] | None = None
) -> Decision:
    """The policy's decision; hits of its rules are reported."""
    compiled = client.effective_policy.compiled
    if not compiled.has_opinion(command.spec):
        return NOTHING
    context = context_of(client, no_wait, prepaid)
    if compiled.limits:
        context.surplus = join_limits(client).surplus
    decision = compiled.judge(command, context)
    if command.judged_calls > _FEW_CALLS:
        note_calls(client, command.judged_calls)
    if context.surplus and client.limit_membership is not None and not closes(decision.verdict):
        client.limit_membership.told(hit.rule for hit in decision.hits)
        client.intake.token_sets = client.limit_membership.token_sets
    if decision.hits:
        client.ports.reports.report(decision.hits, command, client)
    if compiled.follows_slots and client.slot == NO_SLOT and type(decision.verdict) is not Refuse:
        client.slot = _slot_given_by(client, command)
    return decision


def note_calls(client: JudgedClient, number: int) -> None:
    """Count calls of scripts that were judged for the client, until the turn is over."""
    if not client.judged_calls:
        client.ports.route.after(0.0, partial(_begin_turn, client))
    client.judged_calls += number


def had_its_turn(client: JudgedClient) -> bool:
    """Whether so many calls of scripts were judged for the client that others come first."""
    return client.judged_calls > _MOST_CALLS


def _begin_turn(client: JudgedClient) -> None:
    client.judged_calls = 0


def most_in_page(client: JudgedClient, command: Command) -> int | None:
    """The most keys that the policy allows in a page of SCAN that Keyrail makes itself; None if it does not say."""
    return client.effective_policy.compiled.most_in_page(command, context_of(client))


def join_limits(client: JudgedClient) -> LimitMembership:
    """Count the client in under each limit, if it is not yet."""
    membership = client.limit_membership
    if membership is None:
        membership = client.limit_membership = client.effective_policy.compiled.memberships.join(
            client.sender, client.user_name, client.names.client, client.origin.host, lambda: context_of(client)
        )
        client.intake.token_sets = membership.token_sets
    return membership


def end_if_closed_by(client: JudgedClient, verdict: Verdict) -> int:
    """Close the client if the verdict says so. A transaction is ended first, as others may share its upstream."""
    if not closes(verdict) or client.state.transaction is not None:
        return TAKEN
    client.close_when_drained("limited")
    return ENDED


def end_if_told(client: JudgedClient) -> None:
    """Close the client if a rule that has come into force says so, whatever it waits for."""
    compiled = client.effective_policy.compiled
    if compiled.ending and client.key.user != UNAUTHENTICATED:
        context = context_of(client)
        if any(rule.ends(context) for rule in compiled.ending):
            client.close("limited")


def count_keys(client: JudgedClient, command: Command) -> None:
    """Count the keys of a command that goes on."""
    if client.effective_policy.compiled.policy.count_keys:
        counters = client.intake.config.counters
        for key in command.known_keys:
            counters.add(key.name, 0, len(key.name), key.write)


def _slot_given_by(client: JudgedClient, command: Command) -> int:
    # The slot that a command which goes on gives to the transaction that it is in, or comes before.
    watches = command.spec.state is ConnectionState.WATCH
    if watches is (client.state.transaction is not None) or not command.known_keys:
        return NO_SLOT
    return slots.slot_of(command.known_keys[0].name)
