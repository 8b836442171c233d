"""Rules that ask Redis before they decide.

The command that such a rule was asked about waits, and with it all that its client sends behind it; its pending replies
from before still comes. The questions go over a connection of Keyrail's own, so nothing is added to what the client's
upstreams carry, and no other client waits.

      judge ──(Procedure)──> asking ──(answers)──> judged on from that rule ──> routed
                               │
                               ├── the time is over, or no connection can be had: the rule's ``otherwise``
                               └── the client has left: nothing comes of it

The procedure of a rule that is only audited is run as well, but nobody waits for it, not even for its client to
be there still: its end is counted.
"""

from collections.abc import Callable
from functools import partial

from proxy.commands.command import Command
from proxy.policy.compile import CompiledPolicy
from proxy.policy.decision import BackgroundProcedure, Decision
from proxy.rules.verdict import End, Procedure
from proxy.session.policy import judging, tenancy
from proxy.session.policy.node_questions import NodeQuestions, misses_keys, stood_for
from proxy.session.ports.ports import Questions
from proxy.session.progress import Step
from proxy.session.running_procedure import Answered, RunningProcedure
from proxy.session.session import Session
from proxy.session.state import Awaited, Keeping, Pinned


def settled(session: Session, command: Command, decision: Decision) -> Step[Decision]:
    """Run the procedures that the decision waits for: what is decided with what they end in."""
    policy = session.effective_policy.compiled
    while True:
        for background in decision.background:
            look_on(session, policy, command, background)
        pause, procedure = decision.pause, decision.verdict
        if pause is None:
            return decision
        assert isinstance(procedure, Procedure)
        end = yield from ended(session, tenancy.asked_for(session, procedure))
        resumed = policy.resume(pause, end, judging.context_of(session))
        if resumed.hits:
            session.ports.reports.report(resumed.hits, command, session)
        decision = resumed


def ended(
    session: Session, procedure: Procedure, ask: Callable[[Questions, Answered], None] | None = None
) -> Step[End | Exception]:
    """What the procedure ends in. Its questions have names as Redis knows them; ``ask`` sends them."""
    state = session.state
    lingers = type(state) is Pinned and state.keeping is Keeping.LINGERING
    if lingers and session.sender.pending_replies == 0 and not session.keeps_pin():
        # The client has just logged in: its connection may be the only one on which Keyrail can ask.
        session.unpin()
    ends: list[End | Exception] = []

    def come(end: End | Exception) -> None:
        ends.append(end)
        session.arrived()

    running = RunningProcedure(session.ports, ask or asking(session), procedure, come)
    running.begin()
    try:
        while not ends:
            session.wait_for(Awaited.PROCEDURE)
            yield
    finally:
        running.cancel()
    return ends[0]


def asking(session: Session) -> Callable[[Questions, Answered], None]:
    """How questions about the command at hand are sent, with names as Redis knows them."""
    nodes, router = session.ports.nodes, session.intake.config.router
    if nodes is None or router is None:
        return partial(session.ports.queries.ask, session.place())
    walked = [session.node] if session.node is not None else stood_for(nodes, session.origin)
    table, of_one = session.effective_policy.table, session.node is not None
    questions = NodeQuestions(
        session.ports.queries,
        nodes,
        router,
        table,
        session.place(),
        walked,
        lambda: not of_one and misses_keys(nodes, session.origin),
    )
    return questions.ask


def look_on(session: Session, policy: CompiledPolicy, command: Command, background: BackgroundProcedure) -> None:
    """Run a procedure that nobody waits for."""

    def ended(end: End | Exception) -> None:
        hits = policy.said(background.rule, background.mode, end)
        if hits:
            session.ports.reports.report(hits, command, session)

    procedure = tenancy.asked_for(session, background.procedure)
    RunningProcedure(session.ports, asking(session), procedure, ended).begin()
