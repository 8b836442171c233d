"""A circuit opens when Redis fails for long or is slow for a whole window, and not before; it tries again with a few
commands, and closes only after a good window."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from proxy.commands.table import STANDARD
from proxy.hotpath.plan import Plan
from proxy.policy_yaml.errors import PolicyError
from proxy.rules.breaker.rule import Breaker, BreakerSettings, Circuit, CircuitState
from proxy.rules.lowering import Lowering
from proxy.rules.memory import Memory
from proxy.rules.rule import Binding, Wording
from proxy.rules.verdict import PASS, Refuse
from tests.policy.given import policy
from tests.rules.given import NO_WORDS, command, context, spec, spend

SETTINGS = BreakerSettings(failing_for=2.0, slower_than=0.25, window=5.0, cool_down=10.0)


def observe(circuit: Circuit, start: float, seconds: float, took: Callable[[int], float | None]) -> float:
    """Ten observations a second; when they end."""
    count = round(seconds * 10)
    for i in range(count):
        circuit.observe(start + i / 10, took(i))
    return start + seconds


def opened(settings: BreakerSettings = SETTINGS) -> Circuit:
    """A circuit that has opened at 2.0."""
    circuit = Circuit(settings)
    observe(circuit, 0.0, 2.1, lambda _: None)
    assert circuit.state is CircuitState.OPEN
    return circuit


def test_failing_for_long_opens_it_and_a_good_answer_in_between_does_not() -> None:
    circuit = Circuit(SETTINGS)
    now = observe(circuit, 0.0, 30.0, lambda i: None if i % 19 else 0.01)
    assert circuit.state is CircuitState.CLOSED
    observe(circuit, now, 2.1, lambda _: None)
    assert (circuit.state, circuit.why) == (CircuitState.OPEN, "Redis is failing")


@pytest.mark.parametrize(("share_of_slow", "opens"), [(0.4, False), (0.6, True)])
def test_a_window_is_slow_when_most_of_it_is(share_of_slow: float, opens: bool) -> None:
    circuit = Circuit(SETTINGS)
    observe(circuit, 0.0, 8.0, lambda i: 0.3 if i % 10 < share_of_slow * 10 else 0.01)
    assert (circuit.state is CircuitState.OPEN) is opens


def test_less_than_a_window_is_never_slow_and_without_a_limit_nothing_is() -> None:
    short, patient = Circuit(SETTINGS), Circuit(replace(SETTINGS, slower_than=None))
    observe(short, 0.0, 4.9, lambda _: 1.0)
    observe(patient, 0.0, 20.0, lambda _: 1.0)
    assert (short.state, patient.state) == (CircuitState.CLOSED, CircuitState.CLOSED)
    observe(short, 4.9, 0.3, lambda _: 1.0)
    assert (short.state, short.why) == (CircuitState.OPEN, "Redis is slower than 250 ms")


def test_it_cools_down_then_tries_then_closes() -> None:
    circuit = opened()
    observe(circuit, 2.1, 9.7, lambda _: 0.01)
    assert (circuit.state, circuit.lets_through()) == (CircuitState.OPEN, False)
    observe(circuit, 12.0, 4.9, lambda _: 0.01)
    assert circuit.state.value == "half open"
    assert sum(circuit.lets_through() for _ in range(100)) == 10
    observe(circuit, 17.0, 0.3, lambda _: 0.01)
    assert circuit.state.value == "closed"
    assert circuit.lets_through()
    assert spend(circuit.token_set, 1000)


@pytest.mark.parametrize("took", [None, 0.3])
def test_it_stays_open_until_an_observation_is_good(took: float | None) -> None:
    circuit = opened()
    end = observe(circuit, 2.1, 60.0, lambda _: took)
    assert circuit.state is CircuitState.OPEN
    # A client that comes now is not told to come again at once.
    assert end - 0.2 < circuit.until <= end + 1.0


@pytest.mark.parametrize("took", [None, 0.3])
def test_a_trial_that_fails_opens_it_anew(took: float | None) -> None:
    circuit = opened()
    circuit.observe(12.5, 0.01)
    assert circuit.state is CircuitState.HALF_OPEN
    observe(circuit, 12.6, 5.3, lambda _: took)
    assert circuit.state.value == "open"
    assert circuit.until > 20.0


def bound(memory: Memory, wording: Wording = NO_WORDS) -> Breaker:
    return Breaker("ill", SETTINGS, wording, Binding(STANDARD, memory=memory))


def test_what_it_says_while_open() -> None:
    memory = Memory()
    rule = bound(memory)
    assert rule.judge(command("GET a"), context()) == PASS
    observe(memory.each(Circuit)["ill"], 0.0, 2.1, lambda _: None)
    now = replace(context(), now=10.0)
    assert rule.judge(command("GET a"), now) == Refuse(
        b"-DENIED keyrail/ill: Redis is failing; retry after 2000 ms\r\n"
    )
    worded = bound(memory, Wording("it is being moved", "read your cache"))
    assert worded.judge(command("GET a"), now) == Refuse(
        b"-DENIED keyrail/ill: Redis is failing, and it is being moved; read your cache; retry after 2000 ms\r\n"
    )


def test_what_ends_a_state_or_asks_for_life_goes_to_redis() -> None:
    rule = bound(Memory())
    assert [name for name in ("PING", "HELLO", "EXEC", "UNSUBSCRIBE", "GET", "EVAL") if rule.touches(spec(name))] == [
        "GET",
        "EVAL",
    ]


def test_the_plan_passes_what_the_token_set_affords() -> None:
    memory = Memory()
    rule, lowering, plan = bound(memory), Lowering(spec("GET")), Plan(len(STANDARD.specs))
    rule.lower(spec("GET"), lowering)
    lowering.apply(spec("GET").id, plan, {}, {})
    assert plan.token_sets[plan.token_sets_of[spec("GET").id]] == b"\0"
    token_set = rule.enter(context()).token_set
    assert spend(token_set, 1)
    observe(memory.each(Circuit)["ill"], 0.0, 2.1, lambda _: None)
    assert not spend(token_set, 1)


def test_its_yaml() -> None:
    loaded = policy("rules: {a: {breaker: {failing_for: 500ms, slower_than: 2s, cool_down: 1m}}, b: {breaker: {}}}")
    assert [rule.settings for rule in loaded.rules] == [BreakerSettings(0.5, 2.0, 5.0, 60.0), BreakerSettings()]
    with pytest.raises(PolicyError, match=r"a.breaker.window: found '5', expected a time with its unit, such as 250ms"):
        policy("rules: {a: {breaker: {window: 5}}}")
