"""What is judged of the evidence: recorded commands and the extremes of their forms."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from proxy.commands.command import Command
from proxy.commands.expiry import StatedExpiry, read_expiry, states_expiry
from proxy.commands.table import STANDARD
from proxy.commands.values import values_of, writes_far
from proxy.policy.load import load_policy
from proxy.policy.model import Policy
from proxy.rules.rule import takes
from proxy.server.evidence.learn.facts import Use, facts_of
from proxy.traffic.evidence_rows import Identity
from proxy.traffic.exemplars import Remade

_LONGEST_VALUE = 1 << 20


@dataclass(slots=True)
class Recorded:
    """One recorded command: who sent it when, as what, and its form."""

    who: Identity
    at: float
    made: Remade
    form: str
    app: str

    @property
    def readable(self) -> bool:
        """Whether its keys can be read; rules that need keys refuse what they cannot read."""
        command = self.made.command
        return command.has_no_keys or bool(command.known_keys)

    def commands(self) -> Iterator[Command]:
        """The command, and the extremes of its form: the least and most TTL, and the largest value."""
        command = self.made.command
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
