"""With exact evidence every command is recorded, and rows are bounded without losing a count."""

from __future__ import annotations

from collections import Counter

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.net.policy.evidence_recorder import EvidenceRecorder
from proxy.traffic.evidence_rows import MOST_FORMS
from proxy.traffic.redaction import Redact, Redaction
from proxy.wire.request import LARGE
from tests.session.given import Client, call, route_with

EXACT = "rules:\n  del: {replace: {DEL: UNLINK}}\n  keys: {refuse: [KEYS]}\ntraffic: {evidence: exact}\n"


def test_every_command_is_told_under_exact_evidence() -> None:
    for sent in (["SET a:1 x EX 300", "GET a:1", "DEL a:1", "KEYS *"], ["MULTI", "GET a:1", "KEYS *", "EXEC"]):
        route = route_with(EXACT)
        route.sampler.take_all(True)
        Client(route).send(b"".join(call(*line.split()) for line in sent))
        assert route.forms == [(line.split()[0], 1) for line in sent]


def test_so_is_a_streamed_one() -> None:
    route = route_with(EXACT, traces=1)
    client = Client(route)
    client.send(call("SET", "a:1", "x" * (LARGE + 36)))
    assert route.forms == [("SET", 1)]


def test_rows_of_forms_are_bounded_and_lose_no_count() -> None:
    recorder, client = EvidenceRecorder(Redaction(Redact.NONE)), Client(route_with("rules: {}\n"))
    for number in range(MOST_FORMS + 500):
        name = "".join(chr(97 + int(digit)) for digit in str(number))
        recorder.see_form(Command(STANDARD, [b"GET", name.encode()]), client, 3, 1.0)
    forms = recorder.take({}).forms
    counts = Counter(bool(key.shape) for key in forms)
    assert sum(row.count for row in forms.values()) == 3 * (MOST_FORMS + 500)
    assert counts[True] <= MOST_FORMS
    assert all(not row.exemplars for key, row in forms.items() if not key.shape)
