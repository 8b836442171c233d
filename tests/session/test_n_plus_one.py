"""Single reads of one pattern in a row are found as a run; a pipeline, one key repeated and slow reads are no run."""

import pytest

from tests.session.given import Client, FakeRoute, call, route_with

RUN = [call("GET", f"user:{number}") for number in range(8)]
NEVER = 1 << 60


def client_of(rules: str = "rules: {}", *, pooling: bool = True) -> Client:
    """A client whose next command is traced, and no other."""
    route: FakeRoute = route_with(rules, traces=100, pooling=pooling)
    route.follows = True
    return Client(route)


def ask(client: Client, *commands: bytes, pause: float = 0.0) -> None:
    """One by one, each when the last one's reply is there."""
    for command in commands:
        client.send(command)
        client.route.sampler.left = NEVER
        for upstream in client.route.all_upstreams():
            upstream.taken()
            if upstream.owes(client.sender):
                upstream.answer(b"$1\r\nx\r\n")
        client.route.moment += pause


@pytest.mark.parametrize("rules", ["rules: {}", "rules: {short: {names: {max_length: 99}}}"])
def test_a_run_counts_once_and_the_client_is_left_alone(rules: str) -> None:
    client = client_of(rules)
    ask(client, *RUN[:7])
    assert client.route.runs == []
    assert client.intake.simple != client.intake.config.pooled, "all of its commands come to the session"
    ask(client, *RUN[7:], *RUN)
    assert client.route.runs == [("user:{int}", 1)]
    assert client.n_plus_one is None
    assert client.intake.simple == client.intake.config.pooled
    assert client.heard() == b"$1\r\nx\r\n" * 16


def test_a_client_with_an_upstream_of_its_own() -> None:
    client = client_of(pooling=False)
    ask(client, call("PING"))
    client.route.sampler.left = 1
    ask(client, *RUN)
    assert client.route.runs == [("user:{int}", 1)]
    assert client.intake.simple == client.intake.config.pinned


def test_a_policy_that_counts_no_keys_follows_nobody() -> None:
    client = client_of("rules: {}\ntraffic: {count_keys: off}")
    ask(client, RUN[0])
    assert client.intake.simple == client.intake.config.pooled
    ask(client, *RUN[1:])
    assert client.route.runs == []


@pytest.mark.parametrize(
    "commands",
    [
        [*RUN[:7], call("SET", "user:8", "x"), RUN[7]],
        [*RUN[:7], call("GET", "cart:8")],
        [*RUN[:7], call("MGET", "user:8", "user:9")],
        [*RUN[:7], call("PING"), RUN[7]],
        [RUN[0]] * 8,
        [call("SET", "user:8", "x"), *RUN],
    ],
)
def test_what_is_no_run(commands: list[bytes]) -> None:
    client = client_of()
    ask(client, *commands)
    assert client.route.runs == []
    assert client.n_plus_one is None
    assert client.heard() == b"$1\r\nx\r\n" * len(commands)


def test_reads_that_come_together_or_with_time_between_them_are_no_run() -> None:
    together = client_of()
    together.send(b"".join(RUN))
    together.route.upstream().answer(b"$1\r\nx\r\n" * 8)
    slow = client_of()
    ask(slow, *RUN, pause=1.0)
    assert together.route.runs == slow.route.runs == []
    assert together.heard() == slow.heard() == b"$1\r\nx\r\n" * 8


def test_a_transaction_and_another_policy_end_it() -> None:
    client = client_of()
    ask(client, *RUN[:4])
    client.send(call("MULTI") + call("GET", "user:5"))
    assert client.n_plus_one is None
    assert client.intake.simple != bytes(len(client.intake.simple))
    other = client_of()
    ask(other, *RUN[:4])
    other.adopt()
    for read in RUN[4:]:
        ask(other, call("SET", "x", "y"))
        other.route.sampler.left = 1
        ask(other, read)
    assert other.route.runs == []
