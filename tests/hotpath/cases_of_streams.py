"""The upstream pipeline's state table, case by case: subscriptions, relay, flow, and the end of the connection.

Each function plays one situation to the upstream pipeline of the module that it gets: ``test_upstream_pipeline`` gives
the real one, ``test_upstream_pipeline_can_fail`` broken ones.
"""

from __future__ import annotations

from types import ModuleType

from tests.hotpath.bench import BULK, ERROR, OK, ONE, PUSH, Bench, confirmation, heard, message

# Subscriptions


def confirmations_are_counted_by_their_verb(module: ModuleType) -> None:
    for protocol in (2, 3):
        bench = Bench(module)
        client = bench.subscriber(protocol)
        bench.confirmed(client, b"subscribe", 2)
        bench.upstream.send_run(client, b"x", 1)
        first, second = (confirmation(b"subscribe", name, n, protocol) for n, name in ((1, b"a"), (2, b"b")))
        bench.upstream.receive(first + message(b"m", protocol))
        assert (heard(client), client.pending_replies) == (first + message(b"m", protocol), 2)
        bench.upstream.receive(second + OK)
        assert (heard(client), client.pending_replies, bench.events) == (second + OK, 0, [])
        assert bench.upstream.subscriptions.sets[0] == {b"a", b"b"}


def a_bare_unsubscribe_is_confirmed_once_for_each_channel(module: ModuleType) -> None:
    for protocol in (2, 3):
        for channels in (0, 1, 3):
            bench = Bench(module)
            client = bench.subscriber(protocol)
            names = [b"%d" % n for n in range(channels)]
            bench.upstream.subscriptions.sets[0].update(names)
            bench.confirmed(client, b"unsubscribe", -1)
            bench.upstream.send_run(client, b"x", 1)
            null = confirmation(b"unsubscribe", None, 0, protocol)
            frames = [confirmation(b"unsubscribe", name, 0, protocol) for name in names] or [null]
            bench.upstream.receive(b"".join(frames) + OK)
            assert (heard(client), client.pending_replies) == (b"".join(frames) + OK, 0)
            assert (bench.upstream.subscriptions.sets[0], bench.events) == (set(), [])


def one_error_ends_a_whole_subscription(module: ModuleType) -> None:
    for due in (3, 1, -1):
        bench = Bench(module)
        client = bench.subscriber(2)
        bench.confirmed(client, b"subscribe", due)
        bench.upstream.send_run(client, b"x", 1)
        bench.upstream.receive(ERROR[:4])
        bench.upstream.receive(ERROR[4:] + OK)
        assert (heard(client), client.pending_replies, bench.pending_replies()) == (ERROR + OK, 0, [])


def a_confirmation_of_another_verb_pays_nothing(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.subscriber(3)
    bench.confirmed(client, b"subscribe", 1)
    other = confirmation(b"sunsubscribe", b"s", 0, 3)
    bench.upstream.receive(other)
    assert (heard(client), client.pending_replies) == (other, 1)
    bench.upstream.receive(confirmation(b"subscribe", b"a", 1, 3))
    assert client.pending_replies == 0


def a_push_confirmation_out_of_turn_is_noted(module: ModuleType) -> None:
    # Redis unsubscribes by itself when a shard's slot moves, or an ACL changes.
    bench = Bench(module)
    client = bench.subscriber(3)
    bench.upstream.subscriptions.sets[2].add(b"s")
    frame = confirmation(b"sunsubscribe", b"s", 0, 3)
    bench.upstream.send_run(client, b"x", 1)
    bench.upstream.receive(frame + OK)
    assert (heard(client), client.pending_replies) == (frame + OK, 0)
    assert bench.upstream.subscriptions.sets[2] == set()


def a_reply_that_looks_like_a_message_is_one_only_while_subscribed(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.subscriber(2)
    bench.upstream.send_run(client, b"x", 2)
    bench.upstream.receive(message(b"m") + confirmation(b"subscribe", b"a", 1))
    assert (client.pending_replies, bench.pending_replies()) == (0, [])
    bench.upstream.subscriptions.sets[0].add(b"a")
    bench.upstream.send_run(client, b"x", 1)
    bench.upstream.receive(message(b"m"))
    assert client.pending_replies == 1


def short_arrays_are_replies_at_once(module: ModuleType) -> None:
    for frame in (
        b"*0\r\n",
        b"*-1\r\n",
        b"*1\r\n$-1\r\n",
        b"*1\r\n:1\r\n",
        b"*2\r\n$-1\r\n$-1\r\n",
        b"*1\r\n$0\r\n\r\n",
    ):
        for cut in range(1, len(frame) + 1):
            bench = Bench(module)
            client = bench.subscriber(2)
            bench.upstream.send_run(client, b"x", 1)
            bench.upstream.receive(frame[:cut])
            bench.upstream.receive(frame[cut:])
            assert (heard(client), client.pending_replies) == (frame, 0)


def messages_between_the_errors_of_a_subscriber(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.subscriber(2)
    bench.upstream.subscriptions.sets[0].add(b"a")
    bench.upstream.send_run(client, b"x", 3)
    said = ERROR + message(b"1") + ERROR + message(b"2") + ERROR + message(b"3")
    bench.upstream.receive(said)
    assert (heard(client), client.pending_replies, bench.events) == (said, 0, [])


def a_long_array_is_passed_on_before_it_is_whole(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.subscriber(2)
    bench.upstream.send_run(client, b"x", 1)
    head = b"*2\r\n$100\r\n" + b"x" * 70
    bench.upstream.receive(head)
    assert heard(client) == head
    bench.upstream.receive(b"x" * 30 + b"\r\n:1\r\n")
    assert client.pending_replies == 0


def special_fates_hold_for_arrays_in_subscribed_state(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.subscriber(2)
    frame = b"*1\r\n$1\r\nx\r\n"
    bench.upstream.enqueue(client, 1, module.HIDE, None)
    bench.upstream.enqueue(client, 1, module.EDIT, lambda _: ONE)
    bench.upstream.enqueue(client, 1, module.MEMBERS, {0: (module.EDIT, lambda _: OK)})
    bench.upstream.receive(frame * 3)
    assert (heard(client), client.pending_replies) == (ONE + b"*1\r\n" + OK, 0)


# Relay


def under_relay_everything_goes_to_the_owner(module: ModuleType) -> None:
    bench = Bench(module)
    bench.upstream.owner = client = bench.client()
    bench.upstream.relay = True
    said = OK + b'+1.0 [0 127.0.0.1:1] "GET" "k"\r\n' + BULK + PUSH + ERROR
    for cut in range(1, len(said)):
        bench.upstream.receive(said[:cut])
        bench.upstream.receive(said[cut:])
        assert heard(client) == said
    assert (bench.events, client.pending_replies) == ([], 0)


# Idle, resumed


def an_attentive_client_hears_when_it_is_settled(module: ModuleType) -> None:
    bench = Bench(module)
    client, other = bench.client(), bench.client()
    client.notify_when_idle = True
    bench.upstream.send_run(client, b"x", 2)
    bench.upstream.send_run(other, b"x", 1)
    bench.upstream.receive(OK)
    assert bench.events == []
    bench.upstream.receive(OK + OK)
    assert bench.events == [("on_idle", client)]


def a_client_that_asks_again_when_settled_is_settled_again(module: ModuleType) -> None:
    bench = Bench(module)

    class Insistent(module.ReplySink):  # type: ignore[misc, name-defined]  # whichever module is under test
        rounds = 3

        def on_idle(self) -> None:
            self.rounds -= 1
            bench.events.append(self.rounds)
            if self.rounds:
                bench.upstream.send_run(self, b"x", 1)
            else:
                self.notify_when_idle = False

    client = Insistent()
    client.write = lambda _: None
    client.notify_when_idle = True
    bench.upstream.send_run(client, b"x", 1)
    for _ in range(3):
        bench.upstream.receive(OK)
    assert bench.events == [2, 1, 0]


def a_stalled_client_is_relieved_at_its_low_water(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    client.low_water = 2
    client.stalled = True
    bench.upstream.send_run(client, b"x", 4)
    bench.upstream.receive(OK)
    assert bench.events == []
    bench.upstream.receive(OK)
    assert bench.events == [("on_resume", client)]
    bench.upstream.receive(OK * 2)
    assert bench.events == [("on_resume", client)]
    client.stalled = True
    client.low_water = 0
    bench.upstream.send_run(client, b"x", 1)
    bench.upstream.receive(OK)
    assert bench.events == [("on_resume", client)] * 2


def who_is_relieved_is_settled_before_it_asks_again(module: ModuleType) -> None:
    bench = Bench(module)

    class Eager(module.ReplySink):  # type: ignore[misc, name-defined]  # whichever module is under test
        def on_resume(self) -> None:
            bench.events.append("on_resume")
            self.stalled = False
            bench.upstream.send_run(self, b"x", 1)

        def on_idle(self) -> None:
            bench.events.append("on_idle")

    client = Eager()
    client.write = lambda _: None
    client.stalled = client.notify_when_idle = True
    bench.upstream.send_run(client, b"x", 1)
    bench.upstream.receive(OK)
    assert (client.pending_replies, bench.events) == (1, ["on_idle", "on_resume"])
    bench.upstream.receive(OK)
    assert bench.events == ["on_idle", "on_resume", "on_idle"]


def who_is_relieved_and_owed_something_still_is_not_settled(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    client.low_water = 2
    client.stalled = client.notify_when_idle = True
    bench.upstream.send_run(client, b"x", 3)
    bench.upstream.receive(OK)
    assert bench.events == [("on_resume", client)]
    bench.upstream.receive(OK * 2)
    assert bench.events == [("on_resume", client), ("on_idle", client)]


# The end of the connection


def abandon_names_those_who_are_owed_replies(module: ModuleType) -> None:
    bench = Bench(module)
    loser, waiting, paid = bench.client(), bench.client(), bench.client()
    bench.upstream.send_run(paid, b"x", 1)
    bench.upstream.send_run(loser, b"x", 2)
    bench.upstream.enqueue(loser, 1, module.LOCAL, b"+lost\r\n")
    bench.upstream.enqueue(waiting, 1, module.LOCAL, b"+kept\r\n")
    bench.upstream.enqueue(loser, 1, module.HIDE, None)
    bench.upstream.receive(OK + BULK[:8])
    heard(loser)
    assert bench.upstream.outgoing
    assert bench.upstream.abandon() == [loser]
    assert bench.upstream.outgoing == []
    assert (heard(paid), heard(loser), heard(waiting)) == (OK, b"", b"+kept\r\n")
    assert waiting.pending_replies == 0
    assert bench.pending_replies() == []
    assert bench.upstream.closed
    assert not bench.upstream.usable
    bench.upstream.receive(OK)
    assert heard(loser) == b""
    bench.upstream.flush()
    assert bench.written == []


def a_local_answer_before_the_loss_is_sent(module: ModuleType) -> None:
    bench = Bench(module)
    first, second = bench.client(), bench.client()
    second.notify_when_idle = True
    bench.upstream.send_run(first, b"x", 1)
    bench.upstream.enqueue(second, 1, module.LOCAL, OK)
    assert bench.upstream.abandon() == [first]
    assert heard(second) == OK
    assert bench.events == [("on_idle", second)]


def nothing_is_received_after_the_end(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    bench.upstream.send_run(client, b"x", 1)
    bench.upstream.closed = True
    bench.upstream.receive(OK)
    assert (heard(client), client.pending_replies) == (b"", 1)
