"""Libraries that are not installed, by what they send: each packaged policy does to them what docs/libraries.md says.

The hint of each refusal leads to a policy under which the library does its whole daily work, and no key of a queue gets
a TTL on the way.
"""

from __future__ import annotations

import re
from functools import cache

import pytest
import yaml

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.policy.compile import CompiledPolicy, PolicyCompiler
from proxy.policy.decision import Decision
from proxy.rules.known_libraries import JOBS, LIBRARIES
from proxy.rules.verdict import Refuse
from tests.keyrail_process import packaged_policy
from tests.libraries.station import ROOT
from tests.libraries.transcripts import OTHERS, TRANSCRIPTS, Transcript
from tests.policy.given import policy
from tests.rules.given import context

NOW = 1_795_000_000
POLICIES = ("default", "observe", "cache", "strict", "tour")
ALL = {**TRANSCRIPTS, **OTHERS}
HINT = re.compile(r"; if this is (?P<library>[^,]+), (?P<hint>.*)")
LINES = re.compile(r"(?:apps: (?P<apps>\{.*\}) and )?exceptions: (?P<exceptions>\[.*\])")
SECTION = "## Other libraries, by what they send"


class Judged:
    """A transcript under a policy, sent by clients of no app or of the app `jobs`."""

    def __init__(self, transcript: Transcript, text: str, app: str = "") -> None:
        bound = bound_to(text, app)
        expiring = {rule.name for rule in bound.policy.rules if rule.settings.expires_keys}
        self.refusals: list[tuple[int, str, str]] = []
        self.expires = False
        client = context()
        client.now = NOW
        for i, words in enumerate(transcript.sends):
            decision = bound.judge(Command(STANDARD, [word.encode() for word in words]), client)
            if isinstance(decision.verdict, Refuse):
                self.refusals.append((i, decision.hits[-1].rule, decision.verdict.error.decode().rstrip()))
            self.expires = self.expires or bool(expiring & applied(decision))

    @property
    def hint(self) -> str:
        """That of the first refusal that has one."""
        found = (HINT.search(error) for _, _, error in self.refusals)
        return next((match["hint"] for match in found if match), "")


@cache
def bound_to(text: str, app: str) -> CompiledPolicy:
    loaded = policy(re.sub("^keyrail: .*$", "", text, count=1, flags=re.MULTILINE))
    client = next((each for each in loaded.apps if each.name == app), None)
    assert not app or client is not None
    return PolicyCompiler(loaded, STANDARD).bind(client)


def applied(decision: Decision) -> set[str]:
    """The rules whose effect on the command is not only counted."""
    hits = {hit.rule for hit in decision.hits if hit.mode == "enforce"}
    return hits | {each.rule for each in decision.hidden}


def packaged(name: str) -> str:
    return packaged_policy(f"{name}.yaml").read_text(encoding="utf-8")


def with_hint(text: str, hint: str) -> str:
    """The policy with the lines that a hint names."""
    match = LINES.search(hint)
    if match is None:
        return text
    whole = yaml.load(text, yaml.BaseLoader)
    whole["apps"] = {**whole.get("apps", {}), **yaml.load(match["apps"] or "{}", yaml.BaseLoader)}
    whole["exceptions"] = [*whole.get("exceptions", []), *yaml.load(match["exceptions"], yaml.BaseLoader)]
    return yaml.safe_dump({key: value for key, value in whole.items() if value}, sort_keys=False)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("library", ALL)
def test_one_hint_names_all_that_a_library_needs(library: str, name: str) -> None:
    transcript, text = ALL[library], packaged(name)
    judged = Judged(transcript, text)
    if not judged.hint:
        assert library not in HINTED or not judged.refusals or all(rule in LOCKED for _, rule, _ in judged.refusals)
        return
    app = JOBS if f"log in as the user {JOBS}" in judged.hint else ""
    followed = Judged(transcript, with_hint(text, judged.hint), app)
    assert followed.refusals == []
    assert not (transcript.keeps and followed.expires), "keys that a job needs would expire"


HINTED = {each.name for each in LIBRARIES}
LOCKED = {"no-flush", "no-server-control", "scripts"}


def test_each_library_with_a_hint_is_followed() -> None:
    assert HINTED - {"Flask-Caching"} <= ALL.keys()
    refusals = {library: Judged(ALL[library], packaged("strict")).hint for library in ALL}
    hinted = {library for library, hint in refusals.items() if hint}
    assert {"RQ", "Celery", "Dramatiq", "channels_redis", "asynq", "Resque", "Sidekiq", "Laravel queue"} <= hinted


def outcome(library: str, name: str) -> str:
    transcript = TRANSCRIPTS[library]
    judged = Judged(transcript, packaged(name))
    if not judged.refusals:
        return "expires" if transcript.keeps and judged.expires else "works"
    if transcript.independent:
        return "without " + ", ".join(f"`{' '.join(transcript.sends[i][:2])}`" for i, _, _ in judged.refusals)
    first, rule, _ = judged.refusals[0]
    refused = {i for i, _, _ in judged.refusals}
    passed = [
        transcript.sends[i]
        for i in range(first if name == "tour" else max(first, transcript.together))
        if i not in refused
    ]
    specs = {STANDARD.spec_of([word.encode() for word in words]) for words in passed}
    changing = {spec.display for spec in specs if any(each.writes for each in spec.key_specs)}
    assert changing == set(), "it is refused after it has changed something"
    return f"refused: `{rule}`"


def table() -> dict[str, list[str]]:
    text = (ROOT / "docs" / "libraries.md").read_text(encoding="utf-8").partition(SECTION)[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {row[0]: row[2:] for row in rows[1:]}


@pytest.mark.parametrize("library", TRANSCRIPTS)
def test_the_page_says_what_becomes_of_it(library: str) -> None:
    default, cache, strict, tour = table()[library]
    said = {"default": default, "observe": default, "cache": cache, "strict": strict, "tour": tour}
    for name, cell in said.items():
        assert cell.split("; ")[0] == outcome(library, name), name
        if cell.endswith("; user `jobs`"):
            judged = Judged(TRANSCRIPTS[library], packaged(name), JOBS)
            assert not judged.refusals
            assert not judged.expires
