"""A circuit opens when a node fails for long or is slow for a whole window, and not before, nor while its commands wait
for another server or it is loading. After a failure it closes with a few good answers; after slowness it tries again
with a few commands, and closes only after a good window. A command is judged by the nodes that it needs.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from proxy.commands.slots import slot_of
from proxy.commands.table import STANDARD
from proxy.hotpath.plan.plan import Plan
from proxy.policy_yaml.errors import PolicyError
from proxy.rules.breaker.rule import Breaker, BreakerSettings, Circuit, Circuits, CircuitState
from proxy.rules.context import NO_SLOT
from proxy.rules.lowering import Lowering
from proxy.rules.memory import Memory
from proxy.rules.rule import Binding, Wording
from proxy.rules.verdict import PASS, Refuse
from tests.conftest import seeds
from tests.policy.given import policy
from tests.rules.given import NO_WORDS, command, context, spec, spend

SETTINGS = BreakerSettings(failing_for=2.0, slower_than=0.25, window=5.0, cool_down=10.0)


def observe(circuit: Circuit, start: float, seconds: float, took: Callable[[int], float | None]) -> float:
    """Ten observations a second; when they end."""
    count = round(seconds * 10)
    for i in range(count):
        circuit.observe(start + i / 10, took(i))
    return start + seconds


def opened() -> Circuit:
    """A circuit that has opened for slowness at 5.0."""
    circuit = Circuit(SETTINGS)
    observe(circuit, 0.0, 5.1, lambda _: 0.3)
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
    observe(circuit, 5.1, 9.7, lambda _: 0.01)
    assert (circuit.state, circuit.lets_through()) == (CircuitState.OPEN, False)
    observe(circuit, 15.0, 4.9, lambda _: 0.01)
    assert circuit.state.value == "half open"
    assert sum(circuit.lets_through() for _ in range(100)) == 10
    observe(circuit, 20.0, 0.3, lambda _: 0.01)
    assert circuit.state.value == "closed"
    assert circuit.lets_through()


@pytest.mark.parametrize("took", [None, 0.3])
def test_it_stays_open_until_an_observation_is_good(took: float | None) -> None:
    circuit = opened()
    end = observe(circuit, 5.1, 60.0, lambda _: took)
    assert circuit.state is CircuitState.OPEN
    # A client that comes now is not told to come again at once.
    assert end - 0.2 < circuit.until <= end + 1.0


@pytest.mark.parametrize("took", [None, 0.3])
def test_a_trial_that_fails_opens_it_anew(took: float | None) -> None:
    circuit = opened()
    circuit.observe(15.5, 0.01)
    assert circuit.state is CircuitState.HALF_OPEN
    observe(circuit, 15.6, 5.3, lambda _: took)
    assert circuit.state.value == "open"
    assert circuit.until > (20.9 if took is None else 30.0)


def test_a_few_good_answers_close_it_after_a_failure() -> None:
    circuit = Circuit(SETTINGS)
    now = observe(circuit, 0.0, 4.0, lambda _: None)
    assert (circuit.description, circuit.lets_through()) == ("open: Redis is failing", False)
    assert now < circuit.until <= now + 1.0, "a client that comes now is told to come again soon"
    now = observe(circuit, now, 1.2, lambda i: None if i % 3 == 2 else 0.01)
    assert circuit.description == "open: Redis is failing", "never three in a row"
    observe(circuit, now, 0.3, lambda _: 0.01)
    assert (circuit.description, circuit.lets_through()) == ("closed", True)


@pytest.mark.parametrize("seed", seeds(100, 1000))
def test_any_history(seed: int) -> None:
    """Failures while somebody waits for the node, or while it loads, never open it; whatever came before, three good
    answers close a circuit that a failure has opened; and it opens only after failures all along `failing_for`."""
    random, circuit, now = Random(seed), Circuit(SETTINGS), 0.0
    failing, good = 0.0, 0
    for _ in range(40):
        kind = random.choice(("fails", "is awaited", "loads", "is well", "is well", "is slow"))
        for _ in range(random.choice((1, 2, 3, 10, 40))):
            now += 0.1
            before = circuit.state
            if kind == "loads":
                circuit.excuse()
            else:
                took = {"is well": 0.01, "is slow": 0.3}.get(kind)
                circuit.observe(now, took, may_open=kind != "is awaited")
            failing = failing + 0.1 if kind in ("fails", "is awaited") else 0.0
            good = good + 1 if kind == "is well" else 0
            opened_now = circuit.state is CircuitState.OPEN and before is not CircuitState.OPEN
            if opened_now:
                assert kind not in ("is awaited", "loads"), (seed, now)
                failed_long = kind == "fails" and (failing > 2.0 or before is CircuitState.HALF_OPEN)
                assert circuit.why != "Redis is failing" or failed_long, (seed, now)
            if circuit.why == "Redis is failing" and good >= 3:
                assert circuit.state is not CircuitState.OPEN, (seed, now)


def fail(memory: Memory) -> None:
    """The one node fails until 2.0."""
    for i in range(21):
        memory.each(Circuits)["ill"].observe(0, i / 10, None)


def bound(memory: Memory, wording: Wording = NO_WORDS) -> Breaker:
    return Breaker("ill", SETTINGS, wording, Binding(STANDARD, memory=memory))


def test_what_it_says_while_open() -> None:
    memory = Memory()
    rule = bound(memory)
    assert rule.judge(command("GET a"), context()) == PASS
    fail(memory)
    now = replace(context(), now=2.5)
    assert rule.judge(command("GET a"), now) == Refuse(b"-DENIED keyrail/ill: Redis is failing; retry after 500 ms\r\n")
    worded = bound(memory, Wording("it is being moved", "read your cache"))
    assert worded.judge(command("GET a"), now) == Refuse(
        b"-DENIED keyrail/ill: Redis is failing, and it is being moved; read your cache; retry after 500 ms\r\n"
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
    fail(memory)
    assert not spend(token_set, 1)
    for i in range(3):
        memory.each(Circuits)["ill"].observe(0, 3.0 + i / 10, 0.01)
    assert spend(token_set, 1)


KEYS = tuple(f"k{number}" for number in range(12))
COMMANDS = (
    *(("GET {}", 1), ("SET {} v", 1), ("MGET {} {}", 2), ("MSET {} v {} v {} v", 3), ("EVAL x 2 {} {}", 2)),
    *(("RANDOMKEY", None), ("PUBLISH c m", 0), ("EVAL x 0", 0), ("DBSIZE", None), ("SCAN 0", None), ("FLUSHALL", None)),
)
"""How many keys each has; None: it needs all nodes."""


@pytest.mark.parametrize("seed", seeds(100, 1000))
def test_a_command_is_refused_if_a_node_that_it_needs_fails(seed: int) -> None:
    random, memory = Random(seed), Memory()
    rule = bound(memory)
    circuits = memory.each(Circuits)["ill"]
    circuits.owner = lambda slot: slot % 3
    failing = {node for node in range(3) if random.random() < 0.4}
    for i in range(21):
        for node in range(3):
            circuits.observe(node, i / 10, None if node in failing else 0.01)
    for text, keys in COMMANDS:
        used = [random.choice(KEYS) for _ in range(keys or 0)]
        tenant = random.choice((b"", b"acme:"))
        needed = {slot_of(tenant + key.encode()) % 3 for key in used}
        transaction = random.choice((NO_SLOT, random.randrange(16384)))
        if keys == 0 and transaction != NO_SLOT:
            needed = {transaction % 3}
        ill = failing if keys is None else needed & failing if needed else failing if len(failing) == 3 else set()
        now = replace(context(), now=2.1, slot=transaction, tenant=tenant)
        assert isinstance(rule.judge(command(text.format(*used)), now), Refuse) is bool(ill), (text, used, failing)
    circuits.retain({0, 1, 2} - failing)
    assert rule.judge(command("DBSIZE"), context()) == PASS, "the nodes have gone"


def test_its_yaml() -> None:
    loaded = policy("rules: {a: {breaker: {failing_for: 500ms, slower_than: 2s, cool_down: 1m}}, b: {breaker: {}}}")
    assert [rule.settings for rule in loaded.rules] == [BreakerSettings(0.5, 2.0, 5.0, 60.0), BreakerSettings()]
    with pytest.raises(PolicyError, match=r"a.breaker.window: found '5', expected a time with its unit, such as 250ms"):
        policy("rules: {a: {breaker: {window: 5}}}")
