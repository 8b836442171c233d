"""The checks of the upstream pipeline can fail: it is broken on purpose, one line at a time, and each break must be
caught.

A break replaces a piece of the source of ``PARTS`` that occurs once; the result runs from memory as plain Python,
whatever form is installed. A break that no longer applies fails here: write it anew for the line that took the old
one's place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from proxy import hotpath
from tests.hotpath import cases_of_actions, cases_of_late_replies, cases_of_streams
from tests.hotpath.bench import cases_of
from tests.transcripts.replay import Transcript, load, play, shareable, ways

FOLDER = Path(str(hotpath.__file__)).parent
PARTS = (
    "../wire/reply.py",
    "upstream/error_words.py",
    "upstream/in_flight.py",
    "upstream/outgoing.py",
    "upstream/reply_actions.py",
    "upstream/upstream_pipeline.py",
)
SOURCE = re.sub(
    r"from proxy\.(hotpath\.upstream\.(error_words|in_flight|outgoing|reply_actions)|wire\.reply)"
    r" import (\([^)]*\)|.*)\n",
    "",
    "".join((FOLDER / name).read_text() for name in PARTS),
)
NAME = "pipeline_broken_on_purpose"

CASES = cases_of(cases_of_actions) | cases_of(cases_of_late_replies) | cases_of(cases_of_streams)
RECORDED = {name: transcript for name, transcript in load().items() if name.startswith("valkey")}

BREAKS: dict[str, tuple[str, str]] = {
    "what a shared connection has sent is not kept": ("if self.kept < _MOST_KEPT:", "if False:"),
    "what is sent again is not sent": ("self._put(sent)", "pass"),
    "what is sent again is awaited twice": ("        self.add(again)", "        self.expect(again)"),
    "an answer that has left early is pending": (
        "self._answered(entry.sink, 1)\n            entry.sink,",
        "entry.sink,",
    ),
    "a measured reply is not told of": ("entry.payload.begins(data[i:n])", "pass"),
    "a measured reply never ends": ("entry.payload.comes(n - i, self.scanner.elements == 0)", "pass"),
    "what comes later is not measured": ("self.head.payload.comes(n - i, self.scanner.elements == 0)", "pass"),
    "a measured reply is not heavy": (
        "entry.payload.comes(n - i, self.scanner.elements == 0)\n            if self.scanner.bulk > self.large:",
        "entry.payload.comes(n - i, self.scanner.elements == 0)\n            if False:",
    ),
    "a part of a reply is sent as well": (
        "if not whole:\n            self.destination = None",
        "if not whole:\n            self.destination = entry.sink",
    ),
    "what is collected is sent as well": (
        "self.collected.append(self._cut(data, p, i, n))\n            self.destination = None",
        "self.collected.append(self._cut(data, p, i, n))\n            self.destination = entry.sink",
    ),
    "what has come is not collected": (
        "            self.collected.append(self._cut(data, p, i, n))\n            s",
        "            s",
    ),
    "what comes later is not collected": (
        "self.collected.append(self._cut(data, p, i, n))\n            if",
        "if",
    ),
    "a collected frame never ends": ("return self._complete_frame(self.head, pieces, n)", "return n"),
    "what is behind a late reply is looked at": ("return _LATE - n", "return n"),
    "what comes behind a late reply is looked at": (
        "        if self.late:\n            self.rest",
        "        if False:\n            self.rest",
    ),
    "a late reply is pending for ever": (
        "        self.complete_edited(self.head, self.late_sent, self.late_made)\n",
        "",
    ),
    "nobody is told how large a late reply was": ("self.late_made += len(piece)", "pass"),
    "a late reply never ends": ("        self.late = False\n        self.listener", "        self.listener"),
    "no more is read": ("self.listener.resume_for(None)", "pass"),
    "more is read all the same": ("self.listener.hold()", "pass"),
    "what waited for a late reply is forgotten": ('self.receive(b"")', "pass"),
    "a late reply leaves at its end": ("            self.end_round()\n\n    def end_late", "\n    def end_late"),
    "a message comes within a late reply": ("if not self.late and (self.scanner.elements", "if (self.scanner.elements"),
    "a late reply is whole": ("return not self.late and self.scanner", "return self.scanner"),
    "a late reply has no part": ("return not self.late and not self.rest", "return not self.rest"),
    "a late reply stands still": ("late = object() if self.late else None", "late = None"),
    "others wait for a long reply": ("self.listener.on_large_head(self.head.sink)\n\n    def", "pass\n\n    def"),
    "a late reply overflows unseen": (
        "        if sink.full:\n            self.over",
        "        if False:\n            self.over",
    ),
    "who has left wants a late reply": ("or self.head is None or self.head.sink.gone", "or self.head is None"),
    "a lost connection wants a late reply": (
        "return self.closed or self.head is None or",
        "return self.head is not None and",
    ),
    "what failed is reported by a lost connection": (
        "if not self.closed:\n            self.listener.out",
        "if True:\n            self.listener.out",
    ),
    "an error may be late": ("entry.action != EDIT_SOME or begun[0] == _MINUS", "entry.action != EDIT_SOME"),
    "a part of a reply is not paid": (
        "if done > 0:\n            self.complete(entry, done)\n        part: ReplyPart",
        "part: ReplyPart",
    ),
    "a part is not told where it begins": (
        "part: ReplyPart = entry.payload\n        part.take(",
        "(lambda *_: 0)(",
    ),
    "a part is not told what comes later": (
        "part.take(self._cut(data, p, i, n), 1 if whole else 0, whole)",
        "pass",
    ),
    "a part never ends": (
        "part.take(self._cut(data, p, start, i), done, whole)",
        "part.take(self._cut(data, p, start, i), done, False)",
    ),
    "a part is not told of each frame": (
        "part.take(self._cut(data, p, start, i), done, whole)",
        "part.take(self._cut(data, p, start, i), min(done, 1), whole)",
    ),
    "an error comes within what a part is told": (
        "if done == due or i >= size or p[i] == _MINUS or p[i] == _PUSH",
        "if done == due or i >= size or p[i] == _PUSH",
    ),
    "a part is not heavy": (
        "if scanner.bulk > self.large:\n                self.listener.on_large_head(entry.sink)",
        "if False:\n                self.listener.on_large_head(entry.sink)",
    ),
    "a large reply is that of any command": ("self.pending_replies == due and self.run", "self.run"),
    "a run is kept for what comes by itself": ("sink.run = None\n        sink.wrote", "sink.wrote"),
    "a run is kept when all is paid": ("sink.run = None\n            sink.wrote", "sink.wrote"),
    "runs of different clients join": ("tail.sink is sink and tail.action == _FORWARD", "tail.action == _FORWARD"),
    "a run joins an entry of another action": (
        "tail.sink is sink and tail.action == _FORWARD",
        "tail.sink is sink",
    ),
    "a run is not counted": ("            tail.due += due\n", "            tail.due += 1\n"),
    "a local answer overtakes": ("if action == LOCAL and self.head is None:", "if action == LOCAL:"),
    "a local answer at the head waits": ("if action == LOCAL and self.head is None:", "if False:"),
    "an unknown count expects nothing": (
        "sink.pending_replies += due if due > 0 else 1",
        "sink.pending_replies += due",
    ),
    "every send is scheduled": ("if not self.scheduled:", "if True:"),
    "nobody is told that it is sent": ("            for act in calls:\n                act()", "            pass"),
    "everybody is told again and again": ("            self.sent_calls = None\n", ""),
    "a flush does not end": ("        self.scheduled = False\n        outgoing", "        outgoing"),
    "a closed connection is written to": (
        "if not self.closed and self.write is not None:",
        "if self.write is not None:",
    ),
    "the tail is lost": (
        "            self.tail.next = entry\n        self.tail = entry",
        "            self.tail.next = entry",
    ),
    "the rest is forgotten": ("self.rest = data[position:]", "pass"),
    "the rest comes twice": (
        '            data = self.rest + data\n            self.rest = b""',
        "            data = self.rest + data",
    ),
    "odd bytes are swallowed": (
        "            self.listener.out_of_step()\n\n    def _distribute",
        "            pass\n\n    def _distribute",
    ),
    "a push is taken for a reply": (
        "elif p[i] == _PUSH or (self.arrays and p[i] == _STAR):",
        "elif self.arrays and p[i] == _STAR:",
    ),
    "an array is never a message": ("elif p[i] == _PUSH or (self.arrays and p[i] == _STAR):", "elif p[i] == _PUSH:"),
    "a relayed line is a reply": ("elif self.relay and p[i] != _PUSH:", "elif False:"),
    "any push reaches a client": ("or not self.scanner.may_pass(p, i, n)", ""),
    "an attribute reaches a client": ("elif p[i] == _ATTRIBUTE:", "elif False:"),
    "a relayed line is counted": (
        "self._stream(data, p, i, size, self.owner, False)\n\n    def _push",
        "self._stream(data, p, i, size, self.owner, True)\n\n    def _push",
    ),
    "the rest of a frame is dropped": (
        "if self.destination is not None:\n            self.deliver(self.destination, self._cut(data, p, i, n))",
        "if False:\n            pass",
    ),
    "the rest of a frame is not counted": ("if self.scanner.elements == 0 and self.counts:", "if False:"),
    "the rest of a push is counted": (
        "if self.scanner.elements == 0 and self.counts:",
        "if self.scanner.elements == 0:",
    ),
    "a part is counted as a reply": (
        (
            "begun = i\n            i = n\n            if scanner.elements > 0:\n"
            "                break\n            done += 1\n            if done"
        ),
        (
            "begun = i\n            i = n\n            done += 1\n"
            "            if scanner.elements > 0:\n                break\n            if done"
        ),
    ),
    "a client takes its neighbour's replies": (
        "if done == due or i >= size or p[i] == _PUSH",
        "if i >= size or p[i] == _PUSH",
    ),
    "a push among replies is counted": (
        "if done == due or i >= size or p[i] == _PUSH or",
        "if done == due or i >= size or",
    ),
    "a message among errors is counted": (
        "or p[i] == _ATTRIBUTE or (self.arrays and p[i] == _STAR):\n                break",
        "or p[i] == _ATTRIBUTE:\n                break",
    ),
    "all that was read goes to the first": ("sink, self._cut(data, p, start, i)", "sink, data"),
    "one reply of several is paid": (
        "            self.complete(entry, done)\n        return i",
        "            self.complete(entry, 1)\n        return i",
    ),
    "the rest goes to who had the last rest": (
        "            self.destination = sink\n            self.counts = True",
        "            self.counts = True",
    ),
    "what is whole stays half": (
        "            self.elements = 0\n            self.bulk = 0\n            return _INCOMPLETE",
        "            return _INCOMPLETE",
    ),
    "a hidden reply is shown": (
        "return self._stream(data, p, i, size, None, True)",
        "return self._stream(data, p, i, size, entry.sink, True)",
    ),
    "a hidden reply is not paid": (
        "return self._stream(data, p, i, size, None, True)",
        "return self._stream(data, p, i, size, None, False)",
    ),
    "a peek is the reply": (
        "                entry.action = FORWARD\n                entry.payload(data[i:n])\n                return i",
        "                entry.payload(data[i:n])\n                return n",
    ),
    "a replaced reply is shown": (
        "if action == REPLACE:\n            self.deliver(entry.sink, entry.payload)",
        "if action == _REPLACE:\n            self.deliver(entry.sink, frame)",
    ),
    "a reply is not edited": (
        "self.deliver(entry.sink, edited)",
        "self.deliver(entry.sink, frame)",
    ),
    "a reply that an edit makes large is not told": (
        "if size > self.large:",
        "if sent > self.large:",
    ),
    "an edit sees what follows too": (
        "return self._complete_frame(entry, [self._cut(data, p, i, n)], n)",
        "return self._complete_frame(entry, [self._cut(data, p, i, size)], n)",
    ),
    "an error ends one confirmation only": ("entry.due if entry.due > 0 else 1, True)", "1)"),
    "a null array is taken apart": ("if count <= 0:", "if count == 0:"),
    "an empty array is taken apart": ("if count <= 0:", "if count < 0:"),
    "a short array is accepted": ("            if index >= count:\n                return -1\n", ""),
    "members before a special one are forgotten": (
        "InFlightEntry(entry.sink, index - position, _FORWARD, None)",
        "InFlightEntry(entry.sink, 1, _FORWARD, None)",
    ),
    "members behind the last are forgotten": ("if position < count:", "if False:"),
    "hidden members are announced": ("(count - hidden)", "count"),
    "noted members are announced": ("if each.action in (_HIDE, _NOTE))", "if each.action == _HIDE)"),
    "a note is sent": (
        "elif action == NOTE:\n            entry.payload(frame)",
        "elif action == _NOTE:\n            self.deliver(entry.sink, frame)",
    ),
    "the wrapping is shown": (
        '        else:\n            self.deliver(entry.sink, b"*%d',
        '        if True:\n            self.deliver(entry.sink, b"*%d',
    ),
    "the wrapping's size is not checked": ("if unwraps and count != len(actions):", "if False:"),
    "what comes instead passes": ("entry.payload[1](frame)", "frame"),
    "members are not expected": ("entry.sink.pending_replies += count - 1", "pass"),
    "what follows EXEC is lost": ("behind, entry.next = entry.next, None", "behind = None"),
    "the tail stays at EXEC": ("            self.tail = self.array_end\n", "            pass\n"),
    "members come in any order": ("sorted(actions)", "actions"),
    "strays are not counted": ("self.strays += 1", "pass"),
    "a confirmation is a message": ("if said == CONFIRMATION and (p[i] == _PUSH or", "if False and (p[i] == _PUSH or"),
    "a null array hangs": (
        "if p[start + 1] == 45 or (n == start + 4 and p[start + 1] < 50):",
        "if n == start + 4 and p[start + 1] < 50:",
    ),
    "a short array hangs": (
        "if p[start + 1] == 45 or (n == start + 4 and p[start + 1] < 50):",
        "if p[start + 1] == 45:",
    ),
    "a long array waits": ("return 0 if size - start > _SHORT_WORD else _INCOMPLETE", "return _INCOMPLETE"),
    "a confirmation is not noted": ("        subscriptions.confirm(frame)\n", ""),
    "READONLY is any error": ("if read_only(p, i, size):", "if True:"),
    "an error is not counted": (
        "                    self.errors.add(p, i, n)\n            begun",
        "                    pass\n            begun",
    ),
    "errors of special replies are not counted": ("action in _ANSWERS and", "False and"),
    "hidden errors are counted": ("action in _ANSWERS and", ""),
    "errors that Keyrail gets itself are counted": (" and entry.sink.client() is not None:", ":"),
    "what is not allowed is not told": ("self.listener.command_refused(p[i:n])", "pass"),
    "any error is about a command": (" and p[i + 5] == 117 and", " or"),
    "READONLY is not heard": ("            self.read_only = True  #", "            pass  #"),
    "who has left is sent more": ("if sink.gone or not chunk:", "if not chunk:"),
    "nothing is a write": ("if sink.gone or not chunk:", "if sink.gone:"),
    "an entry never ends": ("        if entry.due > 0 and not whole:\n            return\n", "        return\n"),
    "an entry ends with its first reply": ("        if entry.due > 0 and not whole:\n            return\n", ""),
    "local answers behind an entry wait": (
        "while self.head is not None and self.head.action == _LOCAL:",
        "while False:",
    ),
    "one local answer is flushed": (
        "            self.head, local.next = local.next, None\n",
        "            self.head, local.next = local.next, None\n            break\n",
    ),
    "a local answer is never paid": ("            self._answered(local.sink, 1)\n", ""),
    "the tail outlives its entry": ("        if self.head is None:\n            self.tail = None\n", ""),
    "replies stay pending": ("        sink.pending_replies -= done\n", ""),
    "idle is never said": ("if sink.pending_replies == 0:\n", "if sink.pending_replies < 0:\n"),
    "relief never comes": ("(sink.stalled and sink.pending_replies <= sink.low_water)", "False"),
    "overflow is not told": ("                if sink.full:\n", "                if False:\n"),
    "idle is said to who has pending replies again": (
        "if sink.notify_when_idle and sink.pending_replies == 0:",
        "if sink.notify_when_idle:",
    ),
    "READONLY is told again and again": ("if self.read_only and not self.read_only_told:", "if self.read_only:"),
    "a local answer alone is a loss": (
        "            if entry.action != _LOCAL:\n                unanswered.add",
        "            if True:\n                unanswered.add",
    ),
    "a lost connection stays usable": (
        "        self.closed = True\n        self.usable = False\n",
        "        self.closed = True\n",
    ),
    "a lost connection stays open": (
        "        self.closed = True\n        self.usable = False\n",
        "        self.usable = False\n",
    ),
    "entries outlive the connection": (
        "        self.head = None\n        self.tail = None\n        self.array_end = None\n        return lost",
        "        return lost",
    ),
    "what was not sent is sent to nobody": ("        self.outgoing.clear()\n", ""),
    "a large reply is not told": (
        "if scanner.bulk > self.large:\n                sink.large",
        "if False:\n                sink.large",
    ),
}


def module_of(source: str) -> ModuleType:
    module = ModuleType(NAME)
    exec(compile(source, NAME, "exec"), module.__dict__)
    return module


def few(transcript: Transcript) -> Iterator[list[bytes]]:
    return ways(transcript, every=11)


def check(module: ModuleType) -> None:
    """Every check of the upstream pipeline, on fewer cuts. Raises whatever the first failing one raises."""
    for case in CASES.values():
        case(module)
    for transcript in RECORDED.values():
        play(module, transcript, pieces=few)
        if shareable(transcript):
            play(module, transcript, clients=3, pieces=few)


def test_the_unbroken_pipeline_passes() -> None:
    check(module_of(SOURCE))


@pytest.mark.parametrize("name", BREAKS)
def test_a_break_is_caught(name: str) -> None:
    old, new = BREAKS[name]
    assert SOURCE.count(old) == 1, f"{old!r} stands {SOURCE.count(old)} times in the source"
    module = module_of(SOURCE.replace(old, new))
    with pytest.raises(Exception):  # noqa: B017, PT011 - a broken pipeline may fail in any way
        check(module)
