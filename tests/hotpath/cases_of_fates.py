"""The ledger's state table, case by case: what every fate does, and what happens without one.

Each function plays one situation to the ledger of the module that it is given: ``test_ledger`` gives the real one,
``test_ledger_can_fail`` broken ones.
"""

from __future__ import annotations

from types import ModuleType

from tests.hotpath.bench import BULK, ERROR, OK, ONE, PUSH, READONLY, Bench, heard

# Towards Redis


def what_is_sent_leaves_in_order_at_the_next_flush(module: ModuleType) -> None:
    bench = Bench(module)
    one, two = bench.client(), bench.client()
    bench.ledger.submit(one, b"1", 1)
    bench.ledger.send(bench.client(), b"2")
    bench.ledger.submit(two, b"3", 1)
    assert (bench.written, bench.schedules) == ([], 1)
    bench.ledger.flush()
    assert bench.written == [b"123"]
    bench.ledger.flush()
    assert bench.written == [b"123"]
    bench.ledger.send(bench.client(), b"4")
    assert bench.schedules == 2
    bench.ledger.closed = True
    bench.ledger.flush()
    assert bench.written == [b"123"]
    assert bench.ledger.outgoing == []


def runs_of_one_client_are_one_entry(module: ModuleType) -> None:
    bench = Bench(module)
    one, two = bench.client(), bench.client()
    bench.ledger.submit(one, b"x", 2)
    bench.ledger.submit(one, b"x", 3)
    bench.ledger.submit(two, b"x", 1)
    bench.ledger.submit(one, b"x", 1)
    bench.ledger.owe(one, 1, module.HIDE, None)
    bench.ledger.submit(one, b"x", 1)
    forward, hide = module.FORWARD, module.HIDE
    assert bench.owed() == [(forward, 5), (forward, 1), (forward, 1), (hide, 1), (forward, 1)]
    assert (one.owed, two.owed, bench.ledger.commands) == (8, 1, 8)


# An empty ledger


def a_reply_that_nobody_asked_for_is_uninvited(module: ModuleType) -> None:
    for frame in (OK, ERROR, BULK, b"*1\r\n$1\r\na\r\n"):
        bench = Bench(module)
        bench.ledger.receive(frame[:-1])
        assert bench.events == []
        bench.ledger.receive(frame[-1:])
        assert bench.events == [("uninvited", frame)]


def an_uninvited_push_goes_to_the_owner_or_nowhere(module: ModuleType) -> None:
    bench = Bench(module)
    bench.ledger.receive(PUSH)
    assert (bench.ledger.strays, bench.events) == (1, [])
    bench.ledger.owner = client = bench.client()
    bench.ledger.receive(PUSH)
    assert heard(client) == PUSH
    assert (bench.ledger.strays, bench.events) == (1, [])


def bytes_that_are_no_reply_are_out_of_step(module: ModuleType) -> None:
    for queue in (
        lambda ledger, client: None,
        lambda ledger, client: ledger.submit(client, b"x", 2),
        lambda ledger, client: ledger.owe(client, 1, module.HIDE, None),
        lambda ledger, client: ledger.owe(client, 1, module.REPLACE, OK),
        lambda ledger, client: ledger.owe(client, 1, module.EDIT, lambda frame: frame),
    ):
        bench = Bench(module)
        client = bench.client()
        queue(bench.ledger, client)
        bench.ledger.receive(b"what?\r\n")
        assert bench.events == ["out of step"]
        assert heard(client) == b""


def an_array_without_a_count_is_out_of_step(module: ModuleType) -> None:
    for line in (b"*x\r\n", b"*\r\n", b"*5\n", b"x\r\n"):
        bench = Bench(module)
        bench.ledger.owe(bench.client(), 1, module.MEMBERS, {0: (module.HIDE, None)})
        bench.ledger.receive(line)
        assert bench.events == ["out of step"]


def out_of_step_in_the_middle_of_a_frame(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    bench.ledger.submit(client, b"x", 1)
    bench.ledger.receive(b"*2\r\n:1\r\n")
    bench.ledger.receive(b"what?\r\n")
    assert bench.events == ["out of step"]


# FORWARD


def forward_pays_reply_by_reply(module: ModuleType) -> None:
    bench = Bench(module)
    one, two = bench.client(), bench.client()
    bench.ledger.submit(one, b"x", 2)
    bench.ledger.submit(two, b"x", 1)
    bench.ledger.receive(OK)
    assert (heard(one), heard(two), one.owed) == (OK, b"", 1)
    bench.ledger.receive(ERROR + BULK)
    assert (heard(one), heard(two)) == (ERROR, BULK)
    assert bench.owed() == []
    assert (one.owed, two.owed, bench.events) == (0, 0, [])


def one_read_is_one_write(module: ModuleType) -> None:
    bench = Bench(module)
    one, two = bench.client(), bench.client()
    for client in (one, two, one):
        bench.ledger.submit(client, b"x", 2)
    bench.ledger.receive(OK * 2 + ONE * 2 + ERROR * 2)
    assert one.sent == [OK * 2 + ERROR * 2]
    assert two.sent == [ONE * 2]


def a_part_of_a_reply_goes_on_at_once(module: ModuleType) -> None:
    bench = Bench(module)
    one, two = bench.client(), bench.client()
    bench.ledger.submit(one, b"x", 2)
    bench.ledger.submit(two, b"x", 1)
    bench.ledger.receive(OK + BULK[:10])
    assert heard(one) == OK + BULK[:10]
    assert one.owed == 1
    bench.ledger.receive(BULK[10:15])
    assert heard(one) == BULK[10:15]
    bench.ledger.receive(BULK[15:] + ONE)
    assert (heard(one), heard(two)) == (BULK[15:], ONE)
    assert bench.owed() == []


def pushes_between_replies_are_not_counted(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    bench.ledger.submit(client, b"x", 3)
    bench.ledger.receive(OK + PUSH + OK + PUSH[:7])
    bench.ledger.receive(PUSH[7:] + OK)
    assert heard(client) == OK * 3
    assert (client.owed, bench.ledger.strays, bench.owed()) == (0, 2, [])
    bench.ledger.owner = client
    bench.ledger.submit(client, b"x", 2)
    bench.ledger.receive(PUSH + OK + PUSH + OK + PUSH)
    assert heard(client) == PUSH + OK + PUSH + OK + PUSH
    assert (client.owed, bench.events) == (0, [])


def a_client_that_left_is_sent_nothing_and_still_paid(module: ModuleType) -> None:
    bench = Bench(module)
    gone, here = bench.client(), bench.client()
    bench.ledger.submit(gone, b"x", 2)
    bench.ledger.submit(here, b"x", 1)
    gone.gone = gone.full = True
    bench.ledger.receive(BULK[:9])
    bench.ledger.receive(BULK[9:] + ERROR + OK)
    assert (heard(gone), heard(here), gone.owed) == (b"", OK, 0)
    assert (gone.out, bench.events) == ([], [])


def a_large_reply_is_told_when_it_begins(module: ModuleType) -> None:
    bench = Bench(module)
    bench.ledger.large = 10
    client = bench.client()
    bench.ledger.submit(client, b"x", 2)
    bench.ledger.receive(b"$5\r\nhel")
    bench.ledger.receive(b"lo\r\n")
    assert bench.events == []
    bench.ledger.receive(BULK[:6])
    told = [("weighed", b"x", 1, len(BULK)), ("heavy", client)]
    assert bench.events == told
    bench.ledger.receive(BULK[6:])
    assert bench.events == told
    assert heard(client) == b"$5\r\nhello\r\n" + BULK


def whose_large_reply_it_is_is_never_guessed(module: ModuleType) -> None:
    bench = Bench(module)
    bench.ledger.large = 10
    client = bench.client()

    def begun(*runs: tuple[bytes, int]) -> list[object]:
        bench.events.clear()
        for run, count in runs:
            bench.ledger.submit(client, run, count)
        bench.ledger.receive(BULK[:6])
        return [event for event in bench.events if event[0] == "weighed"]

    assert begun((b"abc", 3)) == [("weighed", b"abc", 0, len(BULK))]
    bench.ledger.receive(BULK[6:] + OK + BULK[:6])
    assert bench.events[-2:] == [("weighed", b"abc", 2, len(BULK)), ("heavy", client)]
    bench.ledger.receive(BULK[6:])
    assert (client.owed, client.run) == (0, None)
    assert begun((b"a", 1), (b"b", 1)) == [], "it is that of an earlier run"
    bench.ledger.receive(BULK[6:] + OK)
    assert begun((b"a" * 5000, 1)) == [], "long runs are not kept"
    bench.ledger.receive(BULK[6:])
    bench.ledger.submit(client, b"a", 1)
    bench.ledger.submit(bench.client(), b"b", 1)
    assert begun((b"c", 1)) == [], "it is that of an earlier entry"
    bench.ledger.receive(BULK[6:] + OK * 2)
    bench.ledger.submit(client, b"a", 1)
    bench.ledger.owe(client, 1, module.FORWARD, None)
    bench.ledger.receive(OK)
    assert begun() == [], "of a command that came by itself nothing is known"


def a_client_that_does_not_take_what_it_has_is_told_of(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    bench.ledger.submit(client, b"x", 2)
    bench.ledger.receive(OK)
    client.full = True
    bench.ledger.receive(OK)
    assert bench.events == [("overflowing", client)]


# READONLY


def a_read_only_error_is_told_once(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    bench.ledger.submit(client, b"x", 4)
    bench.ledger.receive(OK + b"-READING is no such error\r\n")
    assert bench.events == []
    bench.ledger.receive(READONLY)
    bench.ledger.receive(READONLY)
    assert bench.events == ["doubt_role"]
    assert heard(client) == OK + b"-READING is no such error\r\n" + READONLY * 2


def a_read_only_error_to_a_rewritten_command_is_told_too(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    bench.ledger.owe(client, 1, module.EDIT, lambda frame: frame)
    bench.ledger.receive(READONLY)
    assert bench.events == ["doubt_role"]


# HIDE, REPLACE, EDIT, PEEK, LOCAL


def hide_drops_the_reply(module: ModuleType) -> None:
    for frame in (OK, ERROR, BULK, b"*2\r\n:1\r\n" + BULK):
        for cut in range(1, len(frame) + 1):
            bench = Bench(module)
            client = bench.client()
            bench.ledger.owe(client, 1, module.HIDE, None)
            bench.ledger.submit(client, b"x", 1)
            bench.ledger.receive(frame[:cut])
            bench.ledger.receive(frame[cut:] + ONE)
            assert heard(client) == ONE
            assert client.owed == 0


def a_push_before_a_hidden_reply_is_not_hidden(module: ModuleType) -> None:
    bench = Bench(module)
    bench.ledger.owner = client = bench.client()
    bench.ledger.owe(client, 1, module.HIDE, None)
    bench.ledger.receive(PUSH)
    assert (heard(client), client.owed) == (PUSH, 1)
    bench.ledger.receive(OK)
    assert (heard(client), client.owed) == (b"", 0)


def replace_sends_its_payload_when_the_reply_is_whole(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    bench.ledger.owe(client, 1, module.REPLACE, b"-DENIED\r\n")
    bench.ledger.receive(ERROR[:-1])
    assert heard(client) == b""
    bench.ledger.receive(ERROR[-1:])
    assert (heard(client), client.owed) == (b"-DENIED\r\n", 0)


def edit_sees_the_whole_frame_and_nothing_else(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    seen: list[bytes] = []

    def edit(frame: bytes) -> bytes:
        seen.append(frame)
        return ONE

    frame = b"*2\r\n:1\r\n" + BULK
    for cut in range(1, len(frame)):
        bench.ledger.owe(client, 1, module.EDIT, edit)
        bench.ledger.submit(client, b"x", 1)
        bench.ledger.receive(frame[:cut])
        bench.ledger.receive(frame[cut:] + OK)
        assert heard(client) == ONE + OK
        assert seen.pop() == frame
        assert seen == []


def an_edit_may_make_nothing_of_a_reply(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    bench.ledger.owe(client, 1, module.EDIT, lambda _: b"")
    bench.ledger.receive(OK)
    assert (client.sent, client.owed) == ([], 0)


def peek_sees_the_first_line_once(module: ModuleType) -> None:
    for frame in (ERROR, BULK, b"*2\r\n:1\r\n" + BULK):
        for cut in range(1, len(frame) + 1):
            bench = Bench(module)
            client = bench.client()
            seen: list[bytes] = []
            bench.ledger.owe(client, 1, module.PEEK, seen.append)
            bench.ledger.receive(frame[:cut])
            bench.ledger.receive(frame[cut:])
            assert seen == [frame[: frame.index(b"\n") + 1]]
            assert (heard(client), client.owed) == (frame, 0)


def local_at_the_head_is_flushed_when_it_is_queued(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    bench.ledger.owe(client, 1, module.LOCAL, OK)
    assert (heard(client), client.owed, bench.owed()) == (OK, 0, [])


def local_waits_for_its_place(module: ModuleType) -> None:
    for fate, payload, comes_out in (
        (module.FORWARD, None, ERROR),
        (module.HIDE, None, b""),
        (module.REPLACE, b"-DENIED\r\n", b"-DENIED\r\n"),
        (module.EDIT, lambda _: b"+edited\r\n", b"+edited\r\n"),
        (module.PEEK, lambda _: None, ERROR),
        (module.MEMBERS, {}, ERROR),
    ):
        bench = Bench(module)
        client, other = bench.client(), bench.client()
        bench.ledger.owe(client, 1, fate, payload)
        bench.ledger.owe(client, 1, module.LOCAL, b"+1\r\n")
        bench.ledger.owe(client, 1, module.LOCAL, b"+2\r\n")
        bench.ledger.owe(other, 1, module.LOCAL, b"+3\r\n")
        bench.ledger.submit(client, b"x", 1)
        assert (heard(client), client.owed) == (b"", 4)
        bench.ledger.receive(ERROR)
        assert (heard(client), heard(other)) == (comes_out + b"+1\r\n+2\r\n", b"+3\r\n")
        assert (client.owed, other.owed) == (1, 0)
        bench.ledger.receive(OK)
        assert (heard(client), client.owed, bench.owed()) == (OK, 0, [])


# EXEC


def members_of_exec_have_their_own_fates(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    fates = {4: (module.EDIT, lambda frame: b"<" + frame), 1: (module.HIDE, None)}
    bench.ledger.owe(client, 1, module.MEMBERS, fates)
    bench.ledger.submit(client, b"x", 1)
    assert client.owed == 2
    bench.ledger.receive(b"*6\r\n")
    assert heard(client) == b"*5\r\n"
    forward = module.FORWARD
    assert bench.owed() == [(forward, 1), (module.HIDE, 1), (forward, 2), (module.EDIT, 1), (forward, 1), (forward, 1)]
    bench.ledger.receive(b"*1\r\n:9\r\n" + OK + BULK + BULK + ONE + ERROR + OK)
    assert heard(client) == b"*1\r\n:9\r\n" + BULK + BULK + b"<" + ONE + ERROR + OK
    assert (client.owed, bench.owed()) == (0, [])


def the_last_member_may_be_the_last_entry(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    bench.ledger.owe(client, 1, module.MEMBERS, {0: (module.HIDE, None)})
    bench.ledger.receive(b"*1\r\n")
    bench.ledger.submit(client, b"x", 1)
    bench.ledger.receive(OK + ONE)
    assert heard(client) == b"*0\r\n" + ONE
    assert (client.owed, bench.owed()) == (0, [])


def what_is_no_array_passes_as_it_is(module: ModuleType) -> None:
    for frame in (b"*-1\r\n", b"*0\r\n", b"_\r\n", b"-EXECABORT no\r\n", ERROR):
        bench = Bench(module)
        client = bench.client()
        bench.ledger.owe(client, 1, module.MEMBERS, {0: (module.HIDE, None)})
        bench.ledger.submit(client, b"x", 1)
        bench.ledger.receive(frame + OK)
        assert (heard(client), client.owed) == (frame + OK, 0)


def an_array_that_is_too_short_is_out_of_step(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    bench.ledger.owe(client, 1, module.MEMBERS, {2: (module.HIDE, None)})
    bench.ledger.receive(b"*2\r\n+a\r\n+b\r\n")
    assert bench.events == ["out of step"]


# NOTE and UNWRAP: hidden commands around a client's


def a_note_is_taken_and_not_sent(module: ModuleType) -> None:
    for frame in (ONE, ERROR, BULK):
        bench = Bench(module)
        client = bench.client()
        noted: list[bytes] = []
        bench.ledger.owe(client, 1, module.NOTE, noted.append)
        bench.ledger.submit(client, b"x", 1)
        bench.ledger.receive(frame[:-1])
        bench.ledger.receive(frame[-1:] + OK)
        assert (noted, heard(client), client.owed) == ([frame], OK, 0)


def a_note_among_members_is_hidden(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    noted: list[bytes] = []
    bench.ledger.owe(client, 1, module.MEMBERS, {1: (module.NOTE, noted.append)})
    bench.ledger.receive(b"*3\r\n" + OK + ONE + BULK)
    assert (noted, heard(client), client.owed) == ([ONE], b"*2\r\n" + OK + BULK, 0)


def what_was_wrapped_comes_out_alone(module: ModuleType) -> None:
    for frame in (OK, ERROR, BULK, b"*2\r\n:1\r\n$-1\r\n"):
        bench = Bench(module)
        client = bench.client()
        noted: list[bytes] = []
        members = {0: (module.NOTE, noted.append), 1: (module.PEEK, noted.append), 2: (module.HIDE, None)}
        bench.ledger.owe(client, 1, module.UNWRAP, (members, lambda frame: b"instead"))
        bench.ledger.submit(client, b"x", 1)
        for byte in b"*3\r\n" + ONE + frame + ERROR + OK:
            bench.ledger.receive(bytes([byte]))
        assert noted == [ONE, frame[: frame.index(b"\n") + 1]]
        assert (heard(client), client.owed, bench.owed()) == (frame + OK, 0, [])


def what_comes_instead_of_an_array_is_told_of(module: ModuleType) -> None:
    for frame in (ERROR, b"_\r\n", OK):
        bench = Bench(module)
        client = bench.client()
        payload = ({0: (module.HIDE, None), 1: (module.FORWARD, None)}, lambda frame: b"<" + frame)
        bench.ledger.owe(client, 1, module.UNWRAP, payload)
        bench.ledger.receive(frame[:-1])
        bench.ledger.receive(frame[-1:])
        assert (heard(client), client.owed, bench.owed()) == (b"<" + frame, 0, [])


def a_wrapping_of_another_size_is_out_of_step(module: ModuleType) -> None:
    for line in (b"*1\r\n", b"*3\r\n", b"*0\r\n", b"*-1\r\n"):
        bench = Bench(module)
        payload = ({0: (module.HIDE, None), 1: (module.FORWARD, None)}, lambda frame: frame)
        bench.ledger.owe(bench.client(), 1, module.UNWRAP, payload)
        bench.ledger.receive(line)
        assert bench.events == ["out of step"]


# MEASURE: a reply that is looked at while it passes


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
            meter = Meter()
            bench.ledger.submit(client, b"x", 1)
            bench.ledger.owe(client, 1, module.MEASURE, meter)
            bench.ledger.submit(client, b"x", 1)
            bench.ledger.receive(ONE + frame[:cut])
            bench.ledger.receive(frame[cut:] + OK)
            assert (heard(client), client.owed, bench.owed()) == (ONE + frame + OK, 0, [])
            assert (meter.lines, sum(meter.sizes), meter.ends) == ([frame[: frame.index(b"\n") + 1]], len(frame), 1)


def a_push_is_no_part_of_what_is_measured(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    meter = Meter()
    bench.ledger.owe(client, 1, module.MEASURE, meter)
    bench.ledger.receive(PUSH + OK + PUSH)
    assert (meter.lines, meter.sizes, meter.ends, client.owed) == ([OK], [len(OK)], 1, 0)


def a_large_reply_is_heavy_when_it_is_measured_too(module: ModuleType) -> None:
    bench = Bench(module)
    client = bench.client()
    bench.ledger.large = 10
    bench.ledger.owe(client, 1, module.MEASURE, Meter())
    bench.ledger.receive(BULK[:8])
    assert bench.events == [("heavy", client)]
