"""Judges what the evidence has recorded by a policy with every rule enforced, as ``keyrail check`` does with tests."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from proxy.commands.command import Command
from proxy.commands.expiry import StatedExpiry, read_expiry, states_expiry
from proxy.commands.table import STANDARD
from proxy.commands.values import values_of, writes_far
from proxy.policy.compile import CompiledPolicy, PolicyCompiler
from proxy.policy.load import load_policy
from proxy.policy.model import Policy
from proxy.rules.context import Context
from proxy.rules.rule import takes
from proxy.server.evidence.learn.facts import Use, facts_of
from proxy.server.evidence.learn.replay import Replayed
from proxy.traffic.evidence_rows import Identity

_SILENT = frozenset({"skipped", "noticed", "moved"})
_LONGEST_VALUE = 1 << 20
_MIDDLE = 0.5


@dataclass(slots=True)
class Recorded:
    """One recorded command: who sent it when, as what, and its form."""

    who: Identity
    at: float
    replayed: Replayed
    form: str
    app: str

    @property
    def readable(self) -> bool:
        """Whether its keys can be read; rules that need keys refuse what they cannot read."""
        command = self.replayed.command
        return command.has_no_keys or bool(command.known_keys)

    def commands(self) -> Iterator[Command]:
        """The command, and the extremes of its form: the least and most TTL, and the largest value."""
        command = self.replayed.command
        yield command
        ttls = facts_of(Use(self.app, command.spec, self.form, 1), write=True)
        for span in ttls.ttls:
            for bound in span:
                yield _with_ttl(command, bound)
        if ttls.largest and not writes_far(command.spec.name):
            yield _with_value(command, min(ttls.largest, _LONGEST_VALUE))


def _with_ttl(command: Command, milliseconds: int) -> Command:
    if not states_expiry(command.spec) or not takes(command.spec, len(command.argv)):
        return command
    stated = read_expiry(command)
    if not isinstance(stated, StatedExpiry) or stated.moment or stated.index >= len(command.argv):
        return command
    argv = list(command.argv)
    argv[stated.index] = b"%d" % (milliseconds // stated.scale)
    return Command(STANDARD, argv)


def _with_value(command: Command, size: int) -> Command:
    values = values_of(command)
    if not values:
        return command
    argv = list(command.argv)
    argv[values[0].index] = b"x" * size
    return Command(STANDARD, argv)


def loaded(text: str) -> Policy:
    """The policy of a text. Raises PolicyError."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "learnt.yaml")
        file.write_text(text, "utf-8")
        return load_policy(file)


class Judge:
    """Judges commands by all rules of a policy that are not off, as if they were enforced."""

    def __init__(self, policy: Policy) -> None:
        self._apps = {app.name: app for app in policy.apps}
        self._compiler = PolicyCompiler(policy, STANDARD)
        self._compiled: dict[str, CompiledPolicy] = {}

    def said(self, command: Command, app: str, at: float) -> tuple[str, ...]:
        """The rules that refuse, change or follow up a command of an app."""
        if app not in self._compiled:
            self._compiled[app] = self._compiler.bind(self._apps.get(app), rehearsal=True)
        compiled = self._compiled[app]
        context = Context("", "", 0, False, at, lambda: _MIDDLE, compiled.app)
        decision = compiled.judge(command, context)
        return (
            *(hit.rule for hit in decision.hits if hit.what not in _SILENT),
            *(each.rule for each in decision.hidden if each.surround.about),
            *(() if decision.pause is None else (decision.pause.rule,)),
        )
