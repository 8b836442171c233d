"""Commands that were sent before the local cache was about their keys."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from proxy.net.cache.earlier_commands import EarlierCommands
from tests.hotpath.gathering import pack
from tests.hotpath.remembering import Cached


def is_held_back(client: Cached) -> bool:
    return client.cache.held_back


def given(client: Cached, *, blocked: int = 0) -> Any:
    return SimpleNamespace(sender=client.sender, intake=client.intake, blocked=blocked > 0)


def test_a_pending_command_holds_everything_back() -> None:
    client, earlier = Cached(), EarlierCommands()
    earlier.note(given(client), [client.cache])
    assert not is_held_back(client), "nothing is pending"
    client.intake.receive(pack("SET", "cold", "1"))
    earlier.note(given(client), [client.cache])
    assert client.cache.waits_for_writers()
    client.redis_answers(b"+OK\r\n")
    assert not client.cache.waits_for_writers()


def test_a_blocked_client_holds_everything_back_once_it_is_answered() -> None:
    client, earlier = Cached(), EarlierCommands()
    client.intake.receive(pack("SET", "cold", "1"))
    earlier.note(given(client, blocked=1), [client.cache])
    earlier.look_at_all([client.cache])
    assert not is_held_back(client)
    client.redis_answers(b"+OK\r\n")
    earlier.look_again(client.sender, [client.cache])
    assert is_held_back(client)
    assert not client.cache.waits_for_writers()
    client.cache.release()
    assert len(client.cache) == 1
    earlier.look_again(client.sender, [client.cache])
    assert not is_held_back(client)


def test_an_open_transaction_holds_everything_back_once_it_runs() -> None:
    client, earlier = Cached(), EarlierCommands()
    client.reads.begin_transaction()
    earlier.note(given(client), [client.cache])
    assert not is_held_back(client), "nothing of it runs before EXEC"
    client.sender.forward(client.fake_upstream, pack("EXEC"))
    client.reads.end_transaction(client.sender, client.sender.requested)
    assert client.cache.waits_for_writers()
    client.redis_answers(b"*0\r\n")
    assert not client.cache.waits_for_writers()


def test_keys_become_hot_for_a_client_that_is_blocked() -> None:
    client, other, earlier = Cached(), Cached(), EarlierCommands()
    for each in (client, other):
        each.intake.receive(pack("SET", "cold", "1"))
    assert earlier.besides_lasting([given(client, blocked=1), given(other)]) == [other.sender]
    client.redis_answers(b"+OK\r\n")
    earlier.look_again(client.sender, [client.cache])
    assert is_held_back(client)
