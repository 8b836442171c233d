"""What is to be kept as evidence of one route, in one worker, until the supervisor takes it."""

from collections.abc import Mapping

from proxy.commands.command import Command
from proxy.net.downstream.client_label import Identities
from proxy.policy.decision import Hit
from proxy.session.ports.client import ServedClient
from proxy.traffic.command_form import exemplar, form_of
from proxy.traffic.evidence_rows import (
    MOST_FORMS,
    MOST_VERDICTS,
    CommandKey,
    EvidenceRows,
    FormKey,
    FormRow,
    Identity,
    VerdictKey,
    VerdictRow,
)
from proxy.traffic.redaction import Redaction
from proxy.traffic.shapes import shape


class EvidenceRecorder:
    """Bounded rows of verdicts and forms. `redaction` says how exemplars show keys."""

    def __init__(self, redaction: Redaction) -> None:
        self.redaction = redaction
        self.exact = False
        """Every verdict is told apart, at whatever rate."""
        self._identities = Identities()
        self._rows = EvidenceRows()

    def count(self, hit: Hit, count: int, app: str, now: float) -> None:
        """Count verdicts of which nothing more is known."""
        self._verdict(folded_key(hit, app), count, now)

    def see(self, hit: Hit, command: Command, client: ServedClient, why: str, now: float) -> None:
        """Count one verdict."""
        its_shape = _shape_of(command)
        who = self._identities.of(client)
        row = self._verdict(VerdictKey(hit.rule, hit.mode.value, hit.what, who, command.name, its_shape), 1, now)
        if not row.exemplars:
            row.exemplars = [exemplar(command, self.redaction, now, why, client.intake.prefix)]

    def see_form(self, command: Command, client: ServedClient, weight: int, now: float) -> None:
        """Count a command that stands for so many."""
        key = FormKey(self._identities.of(client), command.name, _shape_of(command), form_of(command))
        forms = self._rows.forms
        if key not in forms and len(forms) >= MOST_FORMS:
            # Clients can make up any number of names.
            key = key.others if command.spec.name else key.others.others
        row = forms.setdefault(key, FormRow())
        row.count += weight
        row.seen += 1
        if not row.exemplars and not key.who.folded:
            row.exemplars = [exemplar(command, self.redaction, now, prefix=client.intake.prefix)]

    def _verdict(self, key: VerdictKey, count: int, now: float) -> VerdictRow:
        verdicts = self._rows.verdicts
        if key not in verdicts and len(verdicts) >= MOST_VERDICTS:
            key = key.others
        row = verdicts.setdefault(key, VerdictRow())
        row.count += count
        row.first = row.first or now
        row.last = now
        return row

    def take(self, commands: Mapping[CommandKey, int]) -> EvidenceRows:
        """The evidence since the last call, with the `commands` since then."""
        rows, self._rows = self._rows, EvidenceRows()
        rows.commands = dict(commands)
        return rows


def folded_key(hit: Hit, app: str) -> VerdictKey:
    """The row of all hits of this kind that are not told apart."""
    return VerdictKey(hit.rule, hit.mode.value, hit.what, Identity(app))


def _shape_of(command: Command) -> str:
    keys = command.known_keys
    return shape(keys[0].name) if keys else ""
