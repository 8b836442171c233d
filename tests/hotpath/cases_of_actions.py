"""The upstream pipeline's state table, case by case: the effect of every action, and of none.

Each function plays one situation to the upstream pipeline of the module that it gets: ``test_upstream_pipeline`` gives
the real one, ``test_upstream_pipeline_can_fail`` broken ones.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from proxy.hotpath.counting.error_counts import ErrorCounts
from tests.hotpath.bench import BULK, ERROR, OK, ONE, PUSH, READONLY, Bench, heard

# Towards Redis


def what_is_sent_leaves_in_order_at_the_next_flush(module: ModuleType) -> None:
    bench = Bench(module)
    one, two = bench.client(), bench.client()
    bench.upstream.send_run(one, b"1", 1)
    bench.upstream.send_commands(bench.client(), b"2")
    bench.upstream.send_run(two, b"3", 1)
    assert (bench.written, bench.schedules) == ([], 1)
    bench.upstream.flush()
    assert bench.written == [b"123"]
    bench.upstream.flush()
    assert bench.written == [b"123"]
    bench.upstream.send_commands(bench.client(), b"4")
    assert bench.schedules == 2
    bench.upstream.closed = True
    bench.upstream.flush()
    assert bench.written == [b"123"]
    assert bench.upstream.outgoing == []


def who_wants_to_know_when_it_is_sent_is_told_once_it_is_written(module: ModuleType) -> None:
    bench = Bench(module)
    seen: list[tuple[str, int]] = []
    for name in ("first", "second"):
        bench.upstream.send_commands(bench.client(), name.encode())
        bench.upstream.when_sent(lambda name=name: seen.append((name, len(bench.written))))
    assert seen == []
    bench.upstream.flush()
    assert seen == [("first", 1), ("second", 1)]
    bench.upstream.flush()
    assert len(seen) == 2


def an_error_about_a_command_is_told_and_still_goes_to_the_client(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    errors = [b"-NOPERM this user\r\n", b"-ERR unknown command\r\n", b"-ERR unrelated\r\n", b"-WRONGTYPE no\r\n"]
    bench.upstream.send_run(client, b"x", len(errors))
    bench.upstream.receive(b"".join(errors))
    assert bench.events == [("command_refused", error) for error in errors[:2]]
    assert heard(client) == b"".join(errors)


def runs_of_an_owner_are_one_entry(module: ModuleType) -> None:
    bench = Bench(module)
    bench.upstream.send_run(bench.client(), b"x", 1)
    bench.upstream.owner = client = bench.client()
    bench.upstream.send_run(client, b"x", 2)
    bench.upstream.send_run(client, b"x", 3)
    bench.upstream.enqueue(client, 1, module.HIDE, None)
    bench.upstream.send_run(client, b"x", 1)
    forward, hide = module.FORWARD, module.HIDE
    assert bench.pending_replies() == [(forward, 1), (forward, 5), (hide, 1), (forward, 1)]
    assert (client.pending_replies, bench.upstream.commands, bench.upstream.kept) == (7, 7, 1)


def runs_on_a_shared_connection_are_kept_until_they_are_answered(module: ModuleType) -> None:
    bench = Bench(module)
    one, two = bench.client(), bench.client()
    bench.upstream.send_run(one, b"ab", 2)
    bench.upstream.send_run(one, b"cde", 3)
    bench.upstream.send_run(two, b"f", 1)
    assert bench.pending_replies() == [(module.FORWARD, 2), (module.FORWARD, 3), (module.FORWARD, 1)]
    assert [entry.sent for entry in bench.upstream.entries()] == [b"ab", b"cde", b"f"]
    bench.upstream.receive(OK * 4)
    assert [entry.sent for entry in bench.upstream.entries()] == [b"cde", b"f"]
    assert (one.pending_replies, two.pending_replies, bench.upstream.commands, bench.upstream.kept) == (1, 1, 6, 4)


def what_another_connection_was_sent_is_sent_again(module: ModuleType) -> None:
    bench = Bench(module)
    other, client = Bench(module), bench.client()
    other.upstream.send_run(client, b"abc", 3)
    other.upstream.enqueue(client, 1, module.LOCAL, OK)
    other.upstream.receive(ONE)
    for entry in other.upstream.entries():
        bench.upstream.send_again(entry, client, b"bc")
    bench.upstream.flush()
    assert bench.written == [b"bc"]
    assert bench.pending_replies() == [(module.FORWARD, 2), (module.LOCAL, 1)]
    assert (client.pending_replies, bench.upstream.commands, bench.upstream.kept) == (3, 2, 2)
    bench.upstream.receive(ERROR + BULK)
    assert heard(client) == ONE + ERROR + BULK + OK
    assert (client.pending_replies, bench.upstream.kept) == (0, 0)


def answers_behind_replies_of_others_leave_early(module: ModuleType) -> None:
    bench = Bench(module)
    one, two = bench.client(), bench.client()
    bench.upstream.send_run(two, b"x", 1)
    bench.upstream.send_run(one, b"x", 1)
    bench.upstream.enqueue(two, 1, module.LOCAL, ERROR)
    bench.upstream.receive(OK)
    assert (heard(two), two.pending_replies) == (OK, 1)
    bench.upstream.leave_early([entry for entry in bench.upstream.entries() if entry.action == module.LOCAL])
    assert (heard(two), two.pending_replies) == (ERROR, 0)
    bench.upstream.receive(BULK)
    assert (heard(one), heard(two), bench.pending_replies()) == (BULK, b"", [])


# An empty pipeline


def a_reply_that_nobody_asked_for_is_uninvited(module: ModuleType) -> None:
    for frame in (OK, ERROR, BULK, b"*1\r\n$1\r\na\r\n"):
        bench = Bench(module)
        bench.upstream.receive(frame[:-1])
        assert bench.events == []
        bench.upstream.receive(frame[-1:])
        assert bench.events == [("uninvited", frame)]


def an_uninvited_push_goes_to_the_owner_or_nowhere(module: ModuleType) -> None:
    bench = Bench(module)
    bench.upstream.receive(PUSH)
    assert (bench.upstream.strays, bench.events) == (1, [])
    bench.upstream.owner = client = bench.client()
    bench.upstream.receive(PUSH)
    assert heard(client) == PUSH
    assert (bench.upstream.strays, bench.events) == (1, [])


def bytes_that_are_no_reply_are_out_of_step(module: ModuleType) -> None:
    for queue in (
        lambda upstream, client: None,
        lambda upstream, client: upstream.send_run(client, b"x", 2),
        lambda upstream, client: upstream.enqueue(client, 1, module.HIDE, None),
        lambda upstream, client: upstream.enqueue(client, 1, module.REPLACE, OK),
        lambda upstream, client: upstream.enqueue(client, 1, module.EDIT, lambda frame: frame),
    ):
        bench = Bench(module)
        client = bench.client()
        queue(bench.upstream, client)
        bench.upstream.receive(b"what?\r\n")
        assert bench.events == ["out of step"]
        assert heard(client) == b""


def an_array_without_a_count_is_out_of_step(module: ModuleType) -> None:
    for line in (b"*x\r\n", b"*\r\n", b"*5\n", b"x\r\n"):
        bench = Bench(module)
        bench.upstream.enqueue(bench.client(), 1, module.MEMBERS, {0: (module.HIDE, None)})
        bench.upstream.receive(line)
        assert bench.events == ["out of step"]


def out_of_step_in_the_middle_of_a_frame(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    bench.upstream.send_run(client, b"x", 1)
    bench.upstream.receive(b"*2\r\n:1\r\n")
    bench.upstream.receive(b"what?\r\n")
    assert bench.events == ["out of step"]


# FORWARD


def forward_pays_reply_by_reply(module: ModuleType) -> None:
    bench = Bench(module)
    one, two = bench.client(), bench.client()
    bench.upstream.send_run(one, b"x", 2)
    bench.upstream.send_run(two, b"x", 1)
    bench.upstream.receive(OK)
    assert (heard(one), heard(two), one.pending_replies) == (OK, b"", 1)
    bench.upstream.receive(ERROR + BULK)
    assert (heard(one), heard(two)) == (ERROR, BULK)
    assert bench.pending_replies() == []
    assert (one.pending_replies, two.pending_replies, bench.events) == (0, 0, [])


def one_read_is_one_write(module: ModuleType) -> None:
    bench = Bench(module)
    one, two = bench.client(), bench.client()
    for client in (one, two, one):
        bench.upstream.send_run(client, b"x", 2)
    bench.upstream.receive(OK * 2 + ONE * 2 + ERROR * 2)
    assert one.sent == [OK * 2 + ERROR * 2]
    assert two.sent == [ONE * 2]


def a_part_of_a_reply_goes_on_at_once(module: ModuleType) -> None:
    bench = Bench(module)
    one, two = bench.client(), bench.client()
    bench.upstream.send_run(one, b"x", 2)
    bench.upstream.send_run(two, b"x", 1)
    bench.upstream.receive(OK + BULK[:10])
    assert heard(one) == OK + BULK[:10]
    assert one.pending_replies == 1
    bench.upstream.receive(BULK[10:15])
    assert heard(one) == BULK[10:15]
    bench.upstream.receive(BULK[15:] + ONE)
    assert (heard(one), heard(two)) == (BULK[15:], ONE)
    assert bench.pending_replies() == []


def pushes_between_replies_are_not_counted(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    bench.upstream.send_run(client, b"x", 3)
    bench.upstream.receive(OK + PUSH + OK + PUSH[:7])
    bench.upstream.receive(PUSH[7:] + OK)
    assert heard(client) == OK * 3
    assert (client.pending_replies, bench.upstream.strays, bench.pending_replies()) == (0, 2, [])
    bench.upstream.owner = client
    bench.upstream.send_run(client, b"x", 2)
    bench.upstream.receive(PUSH + OK + PUSH + OK + PUSH)
    assert heard(client) == PUSH + OK + PUSH + OK + PUSH
    assert (client.pending_replies, bench.events) == (0, [])


def a_push_that_is_not_listed_reaches_nobody(module: ModuleType) -> None:
    bench = Bench(module)
    bench.upstream.owner = client = bench.client()
    bench.upstream.send_run(client, b"x", 2)
    moving = b">2\r\n$6\r\nMOVING\r\n$1\r\nh\r\n"
    bench.upstream.receive(moving + OK + moving + OK + moving)
    assert heard(client) == OK + OK
    assert (client.pending_replies, bench.upstream.strays, bench.events) == (0, 3, [])


def a_client_that_left_is_sent_nothing_and_still_paid(module: ModuleType) -> None:
    bench = Bench(module)
    gone, here = bench.client(), bench.client()
    bench.upstream.send_run(gone, b"x", 2)
    bench.upstream.send_run(here, b"x", 1)
    gone.gone = gone.full = True
    bench.upstream.receive(BULK[:9])
    bench.upstream.receive(BULK[9:] + ERROR + OK)
    assert (heard(gone), heard(here), gone.pending_replies) == (b"", OK, 0)
    assert (gone.out, bench.events) == ([], [])


def a_large_reply_is_told_when_it_begins(module: ModuleType) -> None:
    bench = Bench(module)
    bench.upstream.large = 10
    client = bench.client()
    bench.upstream.send_run(client, b"x", 2)
    bench.upstream.receive(b"$5\r\nhel")
    bench.upstream.receive(b"lo\r\n")
    assert bench.events == []
    bench.upstream.receive(BULK[:6])
    told = [("on_large_reply", b"x", 1, len(BULK), 0), ("on_large_head", client)]
    assert bench.events == told
    bench.upstream.receive(BULK[6:])
    assert bench.events == told
    assert heard(client) == b"$5\r\nhello\r\n" + BULK


def a_large_reply_that_an_edit_has_made_is_told(module: ModuleType) -> None:
    bench = Bench(module)
    bench.upstream.large = 30
    client = bench.client()

    class Edit:
        opening = b"012"

        def passes(self, head: bytes) -> int:
            return int(b"012" not in head)

        def __call__(self, frame: bytes) -> bytes:
            return b"$40\r\n" + 40 * b"x" + b"\r\n" if frame == BULK else OK

        def begin(self, pieces: list[bytes], _: object) -> list[bytes]:
            return [self(b"".join(pieces))]

    def edited(count: int, action: int) -> list[object]:
        bench.events.clear()
        bench.upstream.send_run(client, b"run", count)
        entry = bench.upstream.tail
        entry.action, entry.payload = action, Edit()
        for _ in range(count):
            bench.upstream.receive(BULK[:9])
            bench.upstream.receive(BULK[9:])
        return bench.events

    for action in (module.EDIT, module.EDIT_SOME):
        told = [("on_large_reply", b"run", place, 47, len(BULK)) for place in range(2)]
        assert edited(2, action) == told
    bench.upstream.large = 47
    assert edited(1, module.EDIT) == []


def whose_large_reply_it_is_is_never_guessed(module: ModuleType) -> None:
    bench = Bench(module)
    bench.upstream.large = 10
    client = bench.client()

    def begun(*runs: tuple[bytes, int]) -> list[object]:
        bench.events.clear()
        for run, count in runs:
            bench.upstream.send_run(client, run, count)
        bench.upstream.receive(BULK[:6])
        return [event for event in bench.events if event[0] == "on_large_reply"]

    assert begun((b"abc", 3)) == [("on_large_reply", b"abc", 0, len(BULK), 0)]
    bench.upstream.receive(BULK[6:] + OK + BULK[:6])
    assert bench.events[-2:] == [("on_large_reply", b"abc", 2, len(BULK), 0), ("on_large_head", client)]
    bench.upstream.receive(BULK[6:])
    assert (client.pending_replies, client.run) == (0, None)
    assert begun((b"a", 1), (b"b", 1)) == [], "it is that of an earlier run"
    bench.upstream.receive(BULK[6:] + OK)
    assert begun((b"a" * 5000, 1)) == [], "long runs are not kept"
    bench.upstream.receive(BULK[6:])
    bench.upstream.send_run(client, b"a", 1)
    bench.upstream.send_run(bench.client(), b"b", 1)
    assert begun((b"c", 1)) == [], "it is that of an earlier entry"
    bench.upstream.receive(BULK[6:] + OK * 2)
    bench.upstream.send_run(client, b"a", 1)
    bench.upstream.enqueue(client, 1, module.FORWARD, None)
    bench.upstream.receive(OK)
    assert begun() == [], "of a command that came by itself nothing is known"


def a_client_that_does_not_take_what_it_has_is_told_of(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    bench.upstream.send_run(client, b"x", 2)
    bench.upstream.receive(OK)
    client.full = True
    bench.upstream.receive(OK)
    assert bench.events == [("overflowing", client)]


# READONLY


def a_read_only_error_is_told_once(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    bench.upstream.send_run(client, b"x", 5)
    bench.upstream.receive(OK + b"-READING is no such error\r\n" + b"-DEADOUT neither\r\n")
    assert bench.events == []
    bench.upstream.receive(READONLY)
    bench.upstream.receive(READONLY)
    assert bench.events == ["doubt_role"]
    assert heard(client) == OK + b"-READING is no such error\r\n-DEADOUT neither\r\n" + READONLY * 2


def a_read_only_error_to_a_rewritten_command_is_told_too(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    bench.upstream.enqueue(client, 1, module.EDIT, lambda frame: frame)
    bench.upstream.receive(READONLY)
    assert bench.events == ["doubt_role"]


# Errors are counted


def each_error_reply_to_a_client_is_counted_once(module: ModuleType) -> None:
    said = (ERROR, b"-WRONGTYPE no\r\n", READONLY, b"-ODD no\r\n", b"-OOM no\r\n")
    for action in (module.FORWARD, module.EDIT, module.PEEK, module.MEMBERS, module.CONFIRM):
        payload: object = (b"subscribe", 1) if action == module.CONFIRM else {} if action == module.MEMBERS else bytes
        for cut in range(1, len(ERROR)):
            bench = Bench(module)
            errors = bench.upstream.errors = ErrorCounts()
            client = bench.client()
            for _ in said:
                bench.upstream.enqueue(client, 1, action, payload)
            bench.upstream.receive(ERROR[:cut])
            bench.upstream.receive(ERROR[cut:] + b"".join(said[1:]))
            assert heard(client) == b"".join(said)
            assert errors.figures() == {"ERR": 1, "WRONGTYPE": 1, "READONLY": 1, "OOM": 1, "other": 1}


def what_no_client_gets_is_no_error_reply(module: ModuleType) -> None:
    for action in (module.HIDE, module.NOTE, module.REPLACE):
        bench = Bench(module)
        errors = bench.upstream.errors = ErrorCounts()
        bench.upstream.enqueue(bench.client(), 1, action, b"+X\r\n" if action == module.REPLACE else bytes)
        bench.upstream.receive(ERROR)
        assert errors.figures() == {}
    bench = Bench(module)
    errors = bench.upstream.errors = ErrorCounts()
    bench.upstream.enqueue(module.ReplySink(), 1, module.EDIT, lambda _: b"")
    bench.upstream.receive(ERROR)
    assert errors.figures() == {}, "Keyrail itself has asked"


# HIDE, REPLACE, EDIT, PEEK, LOCAL


def hide_drops_the_reply(module: ModuleType) -> None:
    for frame in (OK, ERROR, BULK, b"*2\r\n:1\r\n" + BULK):
        for cut in range(1, len(frame) + 1):
            bench = Bench(module)
            client = bench.client()
            bench.upstream.enqueue(client, 1, module.HIDE, None)
            bench.upstream.send_run(client, b"x", 1)
            bench.upstream.receive(frame[:cut])
            bench.upstream.receive(frame[cut:] + ONE)
            assert heard(client) == ONE
            assert client.pending_replies == 0


def a_push_before_a_hidden_reply_is_not_hidden(module: ModuleType) -> None:
    bench = Bench(module)
    bench.upstream.owner = client = bench.client()
    bench.upstream.enqueue(client, 1, module.HIDE, None)
    bench.upstream.receive(PUSH)
    assert (heard(client), client.pending_replies) == (PUSH, 1)
    bench.upstream.receive(OK)
    assert (heard(client), client.pending_replies) == (b"", 0)


def replace_sends_its_payload_when_the_reply_is_whole(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    bench.upstream.enqueue(client, 1, module.REPLACE, b"-DENIED\r\n")
    bench.upstream.receive(ERROR[:-1])
    assert heard(client) == b""
    bench.upstream.receive(ERROR[-1:])
    assert (heard(client), client.pending_replies) == (b"-DENIED\r\n", 0)


def edit_sees_the_whole_frame_and_nothing_else(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    seen: list[bytes] = []

    def edit(frame: bytes) -> bytes:
        seen.append(frame)
        return ONE

    frame = b"*2\r\n:1\r\n" + BULK
    for cut in range(1, len(frame)):
        bench.upstream.enqueue(client, 1, module.EDIT, edit)
        bench.upstream.send_run(client, b"x", 1)
        bench.upstream.receive(frame[:cut])
        bench.upstream.receive(frame[cut:] + OK)
        assert heard(client) == ONE + OK
        assert seen.pop() == frame
        assert seen == []


def a_long_reply_that_is_needed_whole_is_scanned_once(module: ModuleType) -> None:
    class Edit(list[bytes]):
        """Keeps the frames that it gets, and makes nothing of them."""

        opening = b""

        def passes(self, _head: bytes) -> int:
            return 0

        def __call__(self, frame: bytes) -> bytes:
            self.append(frame)
            return b""

        def begin(self, pieces: list[bytes], _reply: Any) -> list[bytes]:
            return [self(b"".join(pieces))]

    frame = b"%3000\r\n" + b"$4\r\nname\r\n*2\r\n:12\r\n$3\r\nabc\r\n" * 3000
    pieces = [frame[at : at + 61] for at in range(0, len(frame), 61)]
    for action in (module.EDIT, module.EDIT_SOME, module.NOTE):
        bench = Bench(module)
        client, seen = bench.client(), Edit()
        bench.upstream.send_run(client, b"x", 1)
        bench.upstream.receive(BULK[:9])
        bench.upstream.receive(BULK[9:])
        assert heard(client) == BULK
        bench.upstream.enqueue(client, 1, action, seen)
        bench.upstream.send_run(client, b"x", 1)
        again = 0
        for piece in pieces:
            bench.upstream.receive(piece)
            again += len(bench.upstream.rest)
            assert bench.upstream.unfinished(client) is None, "it has been sent nothing"
        assert (seen, bench.upstream.collected) == ([frame], [])
        assert again <= len(b"$4\r\n") * len(pieces), "only the beginning of a line is scanned once more"
        bench.upstream.receive(OK)
        assert (heard(client), client.pending_replies, bench.events) == (OK, 0, [])


def an_edit_may_make_nothing_of_a_reply(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    bench.upstream.enqueue(client, 1, module.EDIT, lambda _: b"")
    bench.upstream.receive(OK)
    assert (client.sent, client.pending_replies) == ([], 0)


def an_edit_of_errors_gets_whole_errors_and_lets_others_pass_in_pieces(module: ModuleType) -> None:
    for frame in (OK, BULK, b"*2\r\n:1\r\n" + BULK, b"_\r\n"):
        for cut in range(1, len(frame)):
            bench = Bench(module)
            client = bench.client()
            bench.upstream.enqueue(client, 1, module.EDIT_ERROR, lambda _: b"never")
            bench.upstream.receive(frame[:cut])
            begun = heard(client)
            assert begun or cut < len(BULK), "all that is there leaves, but the beginning of a line"
            bench.upstream.receive(frame[cut:])
            assert (begun + heard(client), client.pending_replies) == (frame, 0)
    for cut in range(1, len(ERROR)):
        bench = Bench(module)
        client = bench.client()
        bench.upstream.enqueue(client, 1, module.EDIT_ERROR, lambda frame: b"-edited " + frame)
        bench.upstream.receive(ERROR[:cut])
        assert heard(client) == b""
        bench.upstream.receive(ERROR[cut:])
        assert (heard(client), client.pending_replies) == (b"-edited " + ERROR, 0)


def an_edit_of_some_replies_lets_others_pass_in_pieces(module: ModuleType) -> None:
    class Edit:
        """Is for bulk strings that begin with ``abc``."""

        opening = b"abc"

        def passes(self, head: bytes) -> int:
            line, _, begun = head.partition(b"\r\n")
            if not line.startswith(b"$") or int(line[1:]) < 3:
                return 1
            return -1 if len(begun) < 3 else int(begun[:3] != b"abc")

        def __call__(self, frame: bytes) -> bytes:
            return b"<" + frame + b">"

        def begin(self, pieces: list[bytes], _reply: Any) -> list[bytes]:
            return [self(b"".join(pieces))]

    for frame in (b"$9\r\nabdefghij\r\n", OK, b"$-1\r\n", b"$0\r\n\r\n"):
        for cut in range(1, len(frame)):
            bench = Bench(module)
            client = bench.client()
            bench.upstream.enqueue(client, 1, module.EDIT_SOME, Edit())
            bench.upstream.receive(frame[:cut])
            begun = heard(client)
            assert begun or cut < len(b"$9\r\nabd"), "all that is there leaves"
            bench.upstream.receive(frame[cut:])
            assert (begun + heard(client), client.pending_replies) == (frame, 0)
    for frame in (b"$9\r\nabcdefghi\r\n", ERROR):
        for cut in range(1, len(frame)):
            bench = Bench(module)
            client = bench.client()
            bench.upstream.enqueue(client, 1, module.EDIT_SOME, Edit())
            bench.upstream.receive(frame[:cut])
            assert heard(client) == b""
            bench.upstream.receive(frame[cut:])
            assert (heard(client), client.pending_replies) == (b"<" + frame + b">", 0)


def an_edit_of_some_replies_is_for_a_whole_run(module: ModuleType) -> None:
    class Edit:
        """Is for bulk strings that begin with ``abc``."""

        opening = b"abc"

        def passes(self, head: bytes) -> int:
            line, _, begun = head.partition(b"\r\n")
            if not line.startswith(b"$") or int(line[1:]) < 3:
                return 1
            return -1 if len(begun) < 3 else int(begun[:3] != b"abc")

        def __call__(self, frame: bytes) -> bytes:
            return b"<" + frame + b">"

        def begin(self, pieces: list[bytes], _reply: Any) -> list[bytes]:
            return [self(b"".join(pieces))]

    frames = [b"$4\r\nabdd\r\n", b"$4\r\nabcd\r\n", b"$-1\r\n", ERROR, b"$0\r\n\r\n", b"$3\r\nabc\r\n", b"$2\r\nab\r\n"]
    edited = [b"<" + frame + b">" if b"abc" in frame or frame == ERROR else frame for frame in frames]
    stream = b"".join(frames) + OK
    for size in range(1, len(stream) + 1):
        bench = Bench(module)
        client = bench.client()
        bench.upstream.send_run(client, b"x", len(frames))
        bench.upstream.tail.action, bench.upstream.tail.payload = module.EDIT_SOME, Edit()
        bench.upstream.send_run(client, b"x", 1)
        for at in range(0, len(stream), size):
            bench.upstream.receive(stream[at : at + size])
        assert (heard(client), client.pending_replies, bench.events) == (b"".join(edited) + OK, 0, [])


def peek_sees_the_first_line_once(module: ModuleType) -> None:
    for frame in (ERROR, BULK, b"*2\r\n:1\r\n" + BULK):
        for cut in range(1, len(frame) + 1):
            bench = Bench(module)
            client = bench.client()
            seen: list[bytes] = []
            bench.upstream.enqueue(client, 1, module.PEEK, seen.append)
            bench.upstream.receive(frame[:cut])
            bench.upstream.receive(frame[cut:])
            assert seen == [frame[: frame.index(b"\n") + 1]]
            assert (heard(client), client.pending_replies) == (frame, 0)


def local_at_the_head_is_flushed_when_it_is_queued(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    bench.upstream.enqueue(client, 1, module.LOCAL, OK)
    assert (heard(client), client.pending_replies, bench.pending_replies()) == (OK, 0, [])


def local_waits_for_its_place(module: ModuleType) -> None:
    for action, payload, comes_out in (
        (module.FORWARD, None, ERROR),
        (module.HIDE, None, b""),
        (module.REPLACE, b"-DENIED\r\n", b"-DENIED\r\n"),
        (module.EDIT, lambda _: b"+edited\r\n", b"+edited\r\n"),
        (module.EDIT_ERROR, lambda _: b"-edited\r\n", b"-edited\r\n"),
        (module.EDIT_SOME, lambda _: b"-edited\r\n", b"-edited\r\n"),
        (module.PEEK, lambda _: None, ERROR),
        (module.MEMBERS, {}, ERROR),
    ):
        bench = Bench(module)
        client, other = bench.client(), bench.client()
        bench.upstream.enqueue(client, 1, action, payload)
        bench.upstream.enqueue(client, 1, module.LOCAL, b"+1\r\n")
        bench.upstream.enqueue(client, 1, module.LOCAL, b"+2\r\n")
        bench.upstream.enqueue(other, 1, module.LOCAL, b"+3\r\n")
        bench.upstream.send_run(client, b"x", 1)
        assert (heard(client), client.pending_replies) == (b"", 4)
        bench.upstream.receive(ERROR)
        assert (heard(client), heard(other)) == (comes_out + b"+1\r\n+2\r\n", b"+3\r\n")
        assert (client.pending_replies, other.pending_replies) == (1, 0)
        bench.upstream.receive(OK)
        assert (heard(client), client.pending_replies, bench.pending_replies()) == (OK, 0, [])


# EXEC


def members_of_exec_have_their_own_fates(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    actions = {4: (module.EDIT, lambda frame: b"<" + frame), 1: (module.HIDE, None)}
    bench.upstream.enqueue(client, 1, module.MEMBERS, actions)
    bench.upstream.send_run(client, b"x", 1)
    assert client.pending_replies == 2
    bench.upstream.receive(b"*6\r\n")
    assert heard(client) == b"*5\r\n"
    forward = module.FORWARD
    assert bench.pending_replies() == [
        (forward, 1),
        (module.HIDE, 1),
        (forward, 2),
        (module.EDIT, 1),
        (forward, 1),
        (forward, 1),
    ]
    bench.upstream.receive(b"*1\r\n:9\r\n" + OK + BULK + BULK + ONE + ERROR + OK)
    assert heard(client) == b"*1\r\n:9\r\n" + BULK + BULK + b"<" + ONE + ERROR + OK
    assert (client.pending_replies, bench.pending_replies()) == (0, [])


def the_last_member_may_be_the_last_entry(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    bench.upstream.enqueue(client, 1, module.MEMBERS, {0: (module.HIDE, None)})
    bench.upstream.receive(b"*1\r\n")
    bench.upstream.send_run(client, b"x", 1)
    bench.upstream.receive(OK + ONE)
    assert heard(client) == b"*0\r\n" + ONE
    assert (client.pending_replies, bench.pending_replies()) == (0, [])


def what_is_no_array_passes_as_it_is(module: ModuleType) -> None:
    for frame in (b"*-1\r\n", b"*0\r\n", b"_\r\n", b"-EXECABORT no\r\n", ERROR):
        bench = Bench(module)
        client = bench.client()
        bench.upstream.enqueue(client, 1, module.MEMBERS, {0: (module.HIDE, None)})
        bench.upstream.send_run(client, b"x", 1)
        bench.upstream.receive(frame + OK)
        assert (heard(client), client.pending_replies) == (frame + OK, 0)


def an_array_that_is_too_short_is_out_of_step(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    bench.upstream.enqueue(client, 1, module.MEMBERS, {2: (module.HIDE, None)})
    bench.upstream.receive(b"*2\r\n+a\r\n+b\r\n")
    assert bench.events == ["out of step"]


# NOTE and UNWRAP: hidden commands around a client's


def a_note_is_taken_and_not_sent(module: ModuleType) -> None:
    for frame in (ONE, ERROR, BULK):
        bench = Bench(module)
        client = bench.client()
        noted: list[bytes] = []
        bench.upstream.enqueue(client, 1, module.NOTE, noted.append)
        bench.upstream.send_run(client, b"x", 1)
        bench.upstream.receive(frame[:-1])
        bench.upstream.receive(frame[-1:] + OK)
        assert (noted, heard(client), client.pending_replies) == ([frame], OK, 0)


def a_note_among_members_is_hidden(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    noted: list[bytes] = []
    bench.upstream.enqueue(client, 1, module.MEMBERS, {1: (module.NOTE, noted.append)})
    bench.upstream.receive(b"*3\r\n" + OK + ONE + BULK)
    assert (noted, heard(client), client.pending_replies) == ([ONE], b"*2\r\n" + OK + BULK, 0)


def what_was_wrapped_comes_out_alone(module: ModuleType) -> None:
    for frame in (OK, ERROR, BULK, b"*2\r\n:1\r\n$-1\r\n"):
        bench = Bench(module)
        client = bench.client()
        noted: list[bytes] = []
        members = {0: (module.NOTE, noted.append), 1: (module.PEEK, noted.append), 2: (module.HIDE, None)}
        bench.upstream.enqueue(client, 1, module.UNWRAP, (members, lambda frame: b"instead"))
        bench.upstream.send_run(client, b"x", 1)
        for byte in b"*3\r\n" + ONE + frame + ERROR + OK:
            bench.upstream.receive(bytes([byte]))
        assert noted == [ONE, frame[: frame.index(b"\n") + 1]]
        assert (heard(client), client.pending_replies, bench.pending_replies()) == (frame + OK, 0, [])


def what_comes_instead_of_an_array_is_told_of(module: ModuleType) -> None:
    for frame in (ERROR, b"_\r\n", OK):
        bench = Bench(module)
        client = bench.client()
        payload = ({0: (module.HIDE, None), 1: (module.FORWARD, None)}, lambda frame: b"<" + frame)
        bench.upstream.enqueue(client, 1, module.UNWRAP, payload)
        bench.upstream.receive(frame[:-1])
        bench.upstream.receive(frame[-1:])
        assert (heard(client), client.pending_replies, bench.pending_replies()) == (b"<" + frame, 0, [])


def a_wrapping_of_another_size_is_out_of_step(module: ModuleType) -> None:
    for line in (b"*1\r\n", b"*3\r\n", b"*0\r\n", b"*-1\r\n"):
        bench = Bench(module)
        payload = ({0: (module.HIDE, None), 1: (module.FORWARD, None)}, lambda frame: frame)
        bench.upstream.enqueue(bench.client(), 1, module.UNWRAP, payload)
        bench.upstream.receive(line)
        assert bench.events == ["out of step"]


# TRACE: a reply that is traced while it passes


class Meter:
    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.sizes: list[int] = []
        self.ends = 0

    def begins(self, line: bytes) -> None:
        self.lines.append(line)

    def comes(self, size: int, whole: bool) -> None:
        self.sizes.append(size)
        self.ends += whole


def a_measured_reply_passes_as_it_is_and_is_told_of(module: ModuleType) -> None:
    for frame in (OK, ERROR, BULK, b"$-1\r\n", b"*2\r\n:1\r\n$3\r\nabc\r\n", b"%1\r\n+a\r\n*0\r\n"):
        for cut in range(len(frame) + 1):
            bench = Bench(module)
            client = bench.client()
            buckets = Meter()
            bench.upstream.send_run(client, b"x", 1)
            bench.upstream.enqueue(client, 1, module.TRACE, buckets)
            bench.upstream.send_run(client, b"x", 1)
            bench.upstream.receive(ONE + frame[:cut])
            bench.upstream.receive(frame[cut:] + OK)
            assert (heard(client), client.pending_replies, bench.pending_replies()) == (ONE + frame + OK, 0, [])
            assert (buckets.lines, sum(buckets.sizes), buckets.ends) == (
                [frame[: frame.index(b"\n") + 1]],
                len(frame),
                1,
            )


def a_push_is_no_part_of_what_is_measured(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    buckets = Meter()
    bench.upstream.enqueue(client, 1, module.TRACE, buckets)
    bench.upstream.receive(PUSH + OK + PUSH)
    assert (buckets.lines, buckets.sizes, buckets.ends, client.pending_replies) == ([OK], [len(OK)], 1, 0)


def a_large_reply_is_heavy_when_it_is_measured_too(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    bench.upstream.large = 10
    bench.upstream.enqueue(client, 1, module.TRACE, Meter())
    bench.upstream.receive(BULK[:8])
    assert bench.events == [("on_large_head", client)]


# JOIN: frames that are parts of one reply


def part_of(module: ModuleType) -> Any:
    """A part of a reply that notes what it takes."""

    class Part(module.ReplyPart):  # type: ignore[misc, name-defined]  # whichever module is under test
        def __init__(self) -> None:
            self.pieces = b""
            self.count = 0
            self.ended = True
            self.begun: list[bytes] = []

        def take(self, piece: bytes, frames: int, whole: bool) -> None:
            self.begun += [piece] if self.ended else []
            self.pieces += piece
            self.count += frames
            self.ended = whole

    return Part()


def parts_of_a_reply_are_taken_and_nothing_is_sent(module: ModuleType) -> None:
    frames = (OK, ERROR, BULK, b"$-1\r\n", b"*2\r\n:1\r\n$3\r\nabc\r\n", b"%1\r\n+a\r\n*0\r\n")
    for frame in frames:
        stream = ONE + frame + PUSH + BULK + OK
        for cut in range(len(stream) + 1):
            bench = Bench(module)
            client = bench.client()
            part = part_of(module)
            bench.upstream.send_run(client, b"x", 1)
            bench.upstream.enqueue(client, 2, module.JOIN, part)
            bench.upstream.send_run(client, b"x", 1)
            bench.upstream.receive(stream[:cut])
            bench.upstream.receive(stream[cut:])
            assert (heard(client), client.pending_replies, bench.pending_replies()) == (ONE + OK, 0, [])
            assert (part.pieces, part.count, part.ended, bench.events) == (frame + BULK, 2, True, [])


def an_error_comes_at_the_beginning_of_what_a_part_takes(module: ModuleType) -> None:
    bench = Bench(module)
    part = part_of(module)
    bench.upstream.enqueue(bench.client(), 5, module.JOIN, part)
    bench.upstream.receive(BULK + OK + ERROR + ERROR + BULK)
    assert part.begun == [BULK + OK, ERROR, ERROR + BULK]
    assert part.count == 5


def a_large_part_of_a_reply_is_heavy(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    part = part_of(module)
    bench.upstream.large = 10
    bench.upstream.enqueue(client, 1, module.JOIN, part)
    bench.upstream.receive(BULK[:8])
    assert bench.events == [("on_large_head", client)]
    assert (part.pieces, part.count, part.ended) == (BULK[:8], 0, False), "it is taken as it comes"


def a_part_out_of_step_closes_both_sides(module: ModuleType) -> None:
    bench = Bench(module)
    bench.upstream.enqueue(bench.client(), 1, module.JOIN, part_of(module))
    bench.upstream.receive(b"?\r\n")
    assert bench.events == ["out of step"]


def an_error_that_is_told_in_place_of_a_redirect_is_the_reply_whatever_waits_for_it(module: ModuleType) -> None:
    def told(upstream: Any, entry: Any, error: bytes) -> bytes:
        return b"-CLUSTERDOWN later\r\n"

    for action in ("FORWARD", "PEEK", "MEMBERS", "EDIT", "EDIT_ERROR", "EDIT_SOME", "UNWRAP"):
        bench = Bench(module)
        bench.upstream.redirects = told
        client, seen = bench.client(), list[bytes]()

        def edited(frame: bytes) -> bytes:
            return frame

        payloads: dict[str, Any] = {"PEEK": seen.append, "MEMBERS": {}, "UNWRAP": ([], edited)}
        payloads |= {"EDIT": edited, "EDIT_ERROR": edited, "EDIT_SOME": edited}
        bench.upstream.enqueue(client, 1, getattr(module, action), payloads.get(action))
        bench.upstream.enqueue(client, 1, module.FORWARD, None)
        bench.upstream.receive(b"-MOVED 1 10.0.0.1:7000\r\n" + OK)
        assert heard(client) == b"-CLUSTERDOWN later\r\n" + OK, action
        assert seen == ([b"-CLUSTERDOWN later\r\n"] if action == "PEEK" else [])
        assert bench.pending_replies() == []
