"""Edits of a plan compose: a chain writes the result of its edits, one after the other."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import example, given, settings
from hypothesis import strategies as st

from proxy.commands.table import STANDARD
from proxy.hotpath.plan.appending import Appending
from proxy.hotpath.plan.request_edit import RequestEdit, RequestEditor
from proxy.hotpath.upstream.splice import Splice
from proxy.wire.encode import encode_command
from proxy.wire.request import COMPLETE, Request, RequestLimits

LIMITS = RequestLimits(1 << 20, 1 << 29, 1 << 29)


@dataclass(frozen=True)
class Model:
    """An edit as it is meant, on arguments. Without `argc` nothing is appended."""

    name: bytes
    argc: int
    words: tuple[bytes, ...]
    satisfied_by: tuple[bytes, ...]

    def applied(self, argv: list[bytes]) -> list[bytes] | None:
        """What becomes of the arguments; None where only a rule can tell."""
        if self.argc == 0:
            return argv if len(argv) == 1 else [self.name or argv[0], *argv[1:]]
        if len(argv) == self.argc:
            return [self.name or argv[0], *argv[1:], *self.words]
        settled = len(argv) > self.argc and argv[self.argc].upper() in self.satisfied_by
        return argv if settled else None

    def built(self, then: RequestEdit | None) -> RequestEdit:
        """The same as the plan holds it."""
        suffix = encode_command(list(self.words)).partition(b"\r\n")[2]
        appending = Appending(self.argc, len(self.words), [suffix], self.satisfied_by) if self.argc else None
        return RequestEdit(0, self.name, appending, then)


names = st.sampled_from((b"UNLINK", b"SET", b"X"))
words = st.lists(st.sampled_from((b"EX", b"300", b"GET", b"")), min_size=1, max_size=3).map(tuple)
swaps = st.builds(Model, names, st.just(0), st.just(()), st.just(()))
appends = st.builds(Model, names | st.just(b""), st.integers(1, 6), words, st.sampled_from(((), (b"EX", b"KEEPTTL"))))
requests = st.lists(st.sampled_from((b"k", b"v", b"ex", b"KEEPTTL", b"")), max_size=6).map(lambda rest: [b"DEL", *rest])


@settings(max_examples=500)
@given(st.lists(swaps | appends, max_size=3), requests)
@example([Model(b"SET", 3, (b"EX", b"300", b"GET"), ())], [b"GETSET", b"k", b"v"])
def test_a_chain_does_what_its_edits_do_one_after_the_other(edits: list[Model], argv: list[bytes]) -> None:
    chain = None
    for each in reversed(edits):
        chain = each.built(chain)
    meant: list[bytes] | None = argv
    appended = False
    for each in edits:
        before = meant
        meant = None if before is None else each.applied(before)
        if meant is None:
            break
        untold = appended and each.argc and len(meant) == len(before or ())
        if untold:
            meant = None  # the rules see what an edit has appended, the plan does not
            break
        appended = appended or len(meant) > len(before or ())

    data = b"+before" + encode_command(argv)
    request, editor, splice = Request(), RequestEditor(), Splice()
    assert request.scan(data, len(b"+before"), LIMITS) == COMPLETE
    outcome = editor.apply(chain, request, data)
    if meant is None:
        assert outcome == -1
    else:
        # An edit that says what stands there already changes nothing, and counts as one.
        assert outcome == 1 or meant == argv
        editor.write(splice, data, request, STANDARD.keys, 0)
        assert splice.take() == encode_command(meant)
