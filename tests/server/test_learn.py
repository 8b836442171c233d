"""A learnt policy is valid, small and tested, and refuses nothing of what its evidence was made of."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.commands.command import Command, KeysUnknownError
from proxy.commands.table import STANDARD
from proxy.policy.apps import Caller, identify
from proxy.policy.compile import PolicyCompiler
from proxy.policy.expectations import run_tests
from proxy.policy.model import Mode, Policy, Stage
from proxy.rules.context import Context
from proxy.rules.verdict import Pass
from proxy.schema.bounds import Bounds
from proxy.server.evidence.learn.judging import loaded
from proxy.server.evidence.learn.learn import NoEvidenceError, learn
from proxy.server.evidence.model import Evidence
from proxy.traffic.evidence_rows import CommandKey, EvidenceRows, Exemplar, FormKey, FormRow, Identity
from proxy.traffic.redaction import Redact
from tests.conftest import seed_budget, seeds
from tests.server.learnable_traffic import NOW, Sent, make_traffic, traffic_of


def changed(policy: Policy, sent: list[Sent]) -> Iterator[tuple[Sent, object]]:
    """What the policy, enforced, does not let pass as it is."""
    compiler = PolicyCompiler(policy, STANDARD)
    compiled = {app: compiler.bind(app, rehearsal=True) for app in (None, *policy.apps)}
    for each in sent:
        command = Command(STANDARD, each.argv)
        try:
            assert command.keys is not None
        except KeysUnknownError:
            continue
        mine = compiled[identify(policy.apps, Caller(each.user, each.client_name))]
        context = Context(each.user, each.client_name, 0, False, NOW, lambda: 0.5, mine.app)
        decision = mine.judge(command, context)
        if not isinstance(decision.verdict, Pass) or decision.hidden:
            yield each, decision.verdict


@pytest.mark.parametrize("seed", seeds(10, 300))
def test_nothing_seen_is_refused(seed: int) -> None:
    traffic = make_traffic(Random(seed))
    policy = loaded(learn(traffic.evidence(), detail=seed % 2 == 1))
    assert len(policy.schema.entries) <= (400 if seed % 2 else 40)
    assert policy.tests
    assert not run_tests(policy, NOW).failed
    assert policy.default.mode is Mode.AUDIT
    assert list(changed(policy, traffic.sent)) == []


@pytest.mark.parametrize("seed", seeds(3, 50))
def test_the_budget_holds_with_many_families(seed: int) -> None:
    traffic = make_traffic(Random(seed), most_families=150)
    policy = loaded(learn(traffic.evidence()))
    assert len(policy.schema.entries) <= 40
    assert list(changed(policy, traffic.sent)) == []


@pytest.mark.parametrize("seed", seeds(4, 100))
def test_hidden_keys(seed: int) -> None:
    text = learn(make_traffic(Random(seed)).evidence(Redact.SHAPE if seed % 2 else Redact.HASH))
    assert not run_tests(loaded(text), NOW).failed
    assert "names were learnt from shapes only" in text


def test_families_have_one_pattern() -> None:
    """Ids of several kinds, and so many words that they can only be ids."""
    ids = ["7", "12", "3f2c9a7e-0d1b-4c55-9c7e-1f2a3b4c5d6e"]
    words = [chr(ord("a") + one) + chr(ord("a") + two) for one in range(9) for two in range(9)]
    traffic = traffic_of(
        *(f"HSET user:{each}:cart f v" for each in ids),
        *(f"SET name:{each}:x v EX 300" for each in words),
        "GET config",
    )
    patterns = {entry.pattern.text: entry for entry in loaded(learn(traffic.evidence())).schema.entries}
    assert set(patterns) == {"user:{user:int|uuid}:cart", "name:{name:word}:x", "config"}
    assert patterns["user:{user:int|uuid}:cart"].type == "hash"
    assert patterns["name:{name:word}:x"].lifetime == Bounds(least=257, most=500, required=True)
    assert len(loaded(learn(traffic.evidence(), detail=True)).schema.entries) == 2 + len(words)


def test_what_is_said_of_an_entry() -> None:
    traffic = traffic_of(*(f"SET page:{n} v EX {240 + n}" for n in range(61)), user="web", app="shop")
    traffic.sent += traffic_of("GET page:1", "SET flag on", "EVALSHA sha 1 flag", user="cron").sent
    text = learn(traffic.evidence())
    assert "app: shop  # writes: shop 61; reads: cron 1" in text
    assert "ttl: {min: 3m21s, max: 8m20s, required: true}" in text
    assert (
        "# 61 creating writes, 100 % with a TTL; p1 3m21s..4m16s, p50 4m17s..8m20s, p99 4m17s..8m20s, max 8m20s;"
        in text
    )
    assert "# Written without a TTL: flag" in text
    assert "EVALSHA of cron, 1 uses: flag" in text
    policy = loaded(text)
    assert {app.name: app.match.user for app in policy.apps} == {"shop": ("web",), "cron": ("cron",)}
    assert [(str(sent.argv), verdict) for sent, verdict in changed(policy, traffic.sent)] == []
    refused = [
        Sent("cron", "", [b"FLUSHALL"]),
        Sent("web", "", [b"SET", b"page:1", b"v"]),
        Sent("web", "", [b"GET", b"x"]),
    ]
    assert len(list(changed(policy, refused))) == len(refused)


def test_what_fits_nothing_is_listed_apart() -> None:
    traffic = traffic_of("SET user:1 v", "GET a1b2c3d4e5", "GET " + "\N{SNOWMAN}")
    evidence = traffic.evidence()
    rows = next(iter(evidence.hours.values()))
    rows.forms[FormKey(Identity("batch"), "GET")] = FormRow(99, 1)
    rows.commands[CommandKey(Identity("batch"), "")] = 99
    text = learn(evidence)
    apart = text.partition("# Apart, since it fits nothing:")[2].partition("rules:")[0]
    assert "{hex}: 1 uses" in apart
    assert "{bytes}: 1 uses" in apart
    assert "99 commands of batch, not told apart" in apart
    assert "user:" not in apart
    assert "No list of commands for unknown: it has commands that were not told apart" in text


def test_one_app_alone() -> None:
    traffic = traffic_of("SET cart:1 v", "GET cart:1", user="web", app="shop")
    traffic.sent += traffic_of("SET job:1 v", user="cron").sent
    policy = loaded(learn(traffic.evidence(), app="shop"))
    assert [entry.pattern.text for entry in policy.schema.entries] == ["cart:{cart:int}"]
    assert list(changed(policy, [*traffic.sent, Sent("other", "", [b"SET", b"elsewhere", b"v"])])) == []
    assert len(list(changed(policy, [Sent("web", "", [b"SET", b"elsewhere", b"v"])]))) == 1


def test_a_template_that_nobody_filled_in_is_a_key_of_its_own() -> None:
    traffic = traffic_of("SET user:7 v", "SET user:8 v", "SET user:9 v", "SET user:{uuid} v", "SET {int} v")
    policy = loaded(learn(traffic.evidence()))
    assert list(changed(policy, traffic.sent)) == []
    assert {"user:{{uuid}}", "{{int}}"} <= {entry.pattern.text for entry in policy.schema.entries}


@pytest.mark.parametrize(("evidence", "app"), [(Evidence(), ""), (traffic_of("GET a").evidence(), "shop")])
def test_nothing_is_learnt_from_nothing(evidence: Evidence, app: str) -> None:
    with pytest.raises(NoEvidenceError, match="no evidence"):
        learn(evidence, app)


def test_a_rule_that_would_refuse_what_was_seen_is_left_out_and_it_is_said() -> None:
    """No pattern matches the empty key."""
    traffic = traffic_of("SET a v")
    traffic.sent.append(Sent("default", "", [b"SET", b"", b"v"]))
    text = learn(traffic.evidence())
    assert "No rule learnt-names: it would refuse or change what was seen" in text
    assert list(changed(loaded(text), traffic.sent)) == []


_TEXT = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["default", "unknown", "svc", "a*", "*", "-", "{int}", "user:{int}", "a:{date}", "x\n# y: z", "\u2028"]
    ),
    st.sampled_from(
        ["'\"\\", "{any...}", "{{a:int}}", "a...", ":", "::", "\ud800", "SET", "CONFIG GET", "A.B", "a?.b"]
    ),
)
_WORDS = st.lists(
    st.one_of(
        _TEXT, st.sampled_from(["GET", "SET", "<5 bytes>", "<99999999999 bytes>", "<7 more>", "EX", "300", "k:1"])
    ),
    max_size=6,
)
_PARTS = ["keys=1", "data=2", "largest=64", f"largest={10**30}", "EX=512", f"EX={1 << 50}", "2:-1", "EXAT=1", "KEEPTTL"]
_FORM = st.one_of(_TEXT, st.lists(st.sampled_from(_PARTS), max_size=5).map(" ".join))
_EXEMPLARS = st.lists(st.builds(Exemplar, _WORDS.map(tuple), st.floats(0, 2e9), _TEXT), max_size=3)
_WHO = st.builds(Identity, _TEXT, _TEXT, _TEXT, _TEXT, _TEXT)
_COUNT = st.integers(1, 1 << 60)
_ROWS = st.builds(
    EvidenceRows,
    st.just({}),
    st.dictionaries(st.builds(CommandKey, _WHO, _TEXT), _COUNT, max_size=4),
    st.dictionaries(
        st.builds(FormKey, _WHO, _TEXT, _TEXT, _FORM), st.builds(FormRow, _COUNT, _COUNT, _EXEMPLARS), max_size=8
    ),
)


@settings(max_examples=seed_budget.of(25))
@given(_ROWS)
def test_hostile_names_of_keys_and_clients_make_no_other_policy(rows: EvidenceRows) -> None:
    """The evidence may come from a file that anybody has written."""
    try:
        text = learn(Evidence([(1.0, 99.0)], {(0, "default"): rows}, lost={"x\n- y": 1}))
    except NoEvidenceError:
        return
    assert text.isascii()
    policy = loaded(text)
    assert not run_tests(policy, NOW).failed
    assert {str(effective.mode) for effective in (policy.default, *modes_of(policy))} <= {"audit", "off"}


def modes_of(policy: Policy) -> Iterator[Stage]:
    for line in policy.rollout.values():
        yield from (stage for stage in (line.default, *line.apps.values()) if stage is not None)
    yield from (rule.mode for rule in policy.rules if rule.mode is not None)
