"""Whatever two clients of a cluster send, and whatever happens to slots, connections and the policy meanwhile: each
command has one reply, its own, in its order, without the name of a node. Nobody waits for ever, a client that has
its replies is as if nothing had happened, and one that has left leaves nothing behind.

The histories are made from seeds (``histories.py``); a red run prints the seed and a history of as few steps as can be.
The same histories are played to sessions and nodes that are broken on purpose, each of which must be found.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from proxy.session.cluster import nodeless_multi
from proxy.session.commands import switching
from proxy.session.dispatcher import transaction
from proxy.session.session import Session
from tests.conftest import seeds
from tests.session.answering import AnsweringConnection
from tests.session.histories import STEPS, fault, shortest

Break = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("seed", seeds(40, 600))
def test_any_history(seed: int) -> None:
    found = shortest(seed, all_rights=True)
    assert not found, found


@pytest.mark.parametrize("seed", seeds(40, 600))
def test_any_history_of_a_user_without_rights(seed: int) -> None:
    found = shortest(seed, all_rights=False)
    assert not found, found


def _leaves_no_simple_commands(owner: object, name: str) -> Break:
    def broken(patch: pytest.MonkeyPatch) -> None:
        ends = getattr(owner, name)

        def end(session: Session, reply: bytes) -> None:
            ends(session, reply)
            session.intake.simple = bytes(len(session.intake.simple))

        patch.setattr(owner, name, end)

    return broken


def _answers(reply: Callable[[list[bytes], bytes], bytes]) -> Break:
    def broken(patch: pytest.MonkeyPatch) -> None:
        whole = AnsweringConnection.run

        def run(self: AnsweringConnection, argv: list[bytes]) -> None:
            before, self.out = self.out, []
            whole(self, argv)
            self.out = [*before, reply(argv, b"".join(self.out))]

        patch.setattr(AnsweringConnection, "run", run)

    return broken


MOST_SEEDS = 150
"""In so many histories each break is found, most in a few."""

ANOTHER_REPLY = "a node answers another command"
BREAKS: dict[str, tuple[Break, str]] = {
    "a transaction without a node ends, and the intake goes on to forward nothing": (
        _leaves_no_simple_commands(nodeless_multi, "_end"),
        "the intake forwards",
    ),
    "a transaction ends at its node, and the intake goes on to forward nothing": (
        lambda patch: patch.setattr(transaction, "_forget_keys", lambda session: None),
        "the intake forwards",
    ),
    "a node answers twice": (
        _answers(lambda argv, reply: reply * (2 if argv[0] == b"PING" else 1)),
        "",
    ),
    "a node does not answer": (_answers(lambda argv, reply: b"" if argv[0] == b"PING" else reply), ""),
    ANOTHER_REPLY: (
        _answers(lambda argv, reply: b"$1\r\n7\r\n" if argv[0] == b"GET" else reply),
        "got b'$1",
    ),
    "a client does not take over a policy": (
        lambda patch: patch.setattr(Session, "adopt", lambda self: None),
        "the policy is of before",
    ),
    "a client is told where a slot is": (
        lambda patch: patch.setattr(Session, "on_redirect", lambda self, upstream, entry, error: error),
        "names a node",
    ),
    "a client goes on before the replies come that decide what it is": (
        lambda patch: patch.setattr(Session, "_waits_on", Session._awaits_elsewhere),
        "",
    ),
    "a client is closed where no connection comes in time": (
        lambda patch: patch.setattr(
            switching._ClientOfNodes, "close", lambda waiter, cause: waiter._session.close(cause)
        ),
        "closed, as no connection came",
    ),
    "a client that waits is forgotten": (
        lambda patch: patch.setattr(Session, "arrived", lambda self: None),
        "has no reply",
    ),
}
"""What is broken, and what the fault is said to be; empty where a break is found in several ways."""


@pytest.mark.parametrize("broken", BREAKS)
def test_what_is_broken_on_purpose_is_found(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks, expected = BREAKS[broken]
    breaks(monkeypatch)
    faults = (fault(seed, range(STEPS), all_rights=True) for seed in range(MOST_SEEDS))
    assert any(found is not None and expected in found[0] for found in faults)


def test_a_red_run_prints_the_seed_and_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    BREAKS[ANOTHER_REPLY][0](monkeypatch)
    printed = next(filter(None, (shortest(seed, all_rights=True) for seed in range(40))))
    assert re.match(r"seed \d+, steps \[\d+(, \d+)?\]: AssertionError ", printed), printed
    assert "sends GET" in printed
