"""Edits of a plan compose: a chain writes the result of its edits, one after the other."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

from hypothesis import example, given, settings
from hypothesis import strategies as st

from proxy.commands.table import STANDARD
from proxy.hotpath.plan.appending import Appending, StatedNumber
from proxy.hotpath.plan.request_edit import RequestEdit, RequestEditor
from proxy.hotpath.upstream.splice import Splice
from proxy.wire.encode import encode_command
from proxy.wire.request import COMPLETE, Request, RequestLimits

ONE_KEY = next(spec.id for spec in STANDARD.specs if spec.name == "GET")
LIMITS = RequestLimits(1 << 20, 1 << 29, 1 << 29)


@dataclass(frozen=True)
class Model:
    """An edit as it is meant, on arguments. Without `argc` nothing is appended.

    With `doubles`, a request of one argument more than `argc` that ends in EX and a number below 100 gets twice the
    number, but at most 99.
    """

    name: bytes
    argc: int
    words: tuple[bytes, ...]
    satisfied_by: tuple[bytes, ...]
    doubles: bool = False

    def applied(self, argv: list[bytes]) -> list[bytes] | None:
        """What becomes of the arguments; None where only a rule can tell."""
        if self.argc == 0:
            return argv if len(argv) == 1 else [self.name or argv[0], *argv[1:]]
        if len(argv) == self.argc:
            return [self.name or argv[0], *argv[1:], *self.words]
        if len(argv) > self.argc and argv[self.argc].upper() in self.satisfied_by:
            return argv
        states = self.doubles and len(argv) == self.argc + 1 and argv[-2].upper() == b"EX"
        if not states or not argv[-1].isdigit() or argv[-1].startswith(b"0"):
            return None
        return [*argv[:-1], b"%d" % min(99, 2 * int(argv[-1]))] if int(argv[-1]) <= 99 else None

    def built(self, then: RequestEdit | None) -> RequestEdit:
        """The same as the plan holds it."""
        suffix = encode_command(list(self.words)).partition(b"\r\n")[2]
        argc = self.argc
        stated = [StatedNumber(argc + 1, b"EX", argc - 1, argc, 1, 99, array("d", [2.0]))] if self.doubles else []
        appending = Appending(argc, len(self.words), [suffix], self.satisfied_by, stated) if argc else None
        return RequestEdit(0, self.name, appending, then)


names = st.sampled_from((b"UNLINK", b"SET", b"X"))
words = st.lists(st.sampled_from((b"EX", b"300", b"GET", b"")), min_size=1, max_size=3).map(tuple)
swaps = st.builds(Model, names, st.just(0), st.just(()), st.just(()))
appends = st.builds(Model, names | st.just(b""), st.integers(1, 6), words, st.sampled_from(((), (b"EX", b"KEEPTTL"))))
doubling = st.builds(Model, st.just(b""), st.integers(2, 5), words, st.sampled_from(((), (b"KEEPTTL",))), st.just(True))
numbers = (b"1", b"7", b"60", b"99", b"100", b"07", b"0")
requests = st.lists(st.sampled_from((b"k", b"v", b"ex", b"KEEPTTL", b"", *numbers)), max_size=6).map(
    lambda rest: [b"DEL", *rest]
)
stating = st.builds(
    lambda rest, number: [b"DEL", *rest, b"Ex", number], st.lists(st.just(b"v"), max_size=3), st.sampled_from(numbers)
)


DOUBLED = Model(b"", 3, (b"EX", b"300"), (), doubles=True)


@settings(max_examples=500)
@given(st.lists(swaps | appends | doubling, max_size=3), requests | stating, st.sampled_from((b"", b"acme:")))
@example([Model(b"SET", 3, (b"EX", b"300", b"GET"), ())], [b"GETSET", b"k", b"v"], b"")
@example([DOUBLED], [b"SET", b"k", b"ex", b"7"], b"acme:")
@example([DOUBLED] * 2, [b"SET", b"k", b"ex", b"7"], b"")
def test_a_chain_does_what_its_edits_do_one_after_the_other(
    edits: list[Model], argv: list[bytes], prefix: bytes
) -> None:
    chain = None
    for each in reversed(edits):
        chain = each.built(chain)
    meant: list[bytes] | None = argv
    looked_at = True
    for each in edits:
        before = meant
        meant = None if before is None else each.applied(before)
        if meant is None:
            break
        if not looked_at and each.argc and len(meant) == len(before or ()):
            meant = None  # the rules see what an edit has appended or changed, the plan does not
            break
        looked_at = looked_at and (meant == before or not each.argc)

    before_it, scanned_before = encode_command([b"SET", b"k", b"EX", b"7"]), Request()
    assert scanned_before.scan(before_it, 0, LIMITS) == COMPLETE
    data = b"+before" + encode_command(argv)
    request, editor, splice = Request(), RequestEditor(), Splice()
    assert request.scan(data, len(b"+before"), LIMITS) == COMPLETE
    assert editor.apply(DOUBLED.built(None), scanned_before, before_it) == 1  # which the next request knows nothing of
    outcome = editor.apply(chain, request, data)
    if meant is None:
        assert outcome == -1
    else:
        # An edit that says what stands there already changes nothing, and counts as one.
        assert outcome == 1 or meant == argv
        found = STANDARD.keys.find(ONE_KEY, request) if prefix and len(argv) > 1 else 0
        editor.prefix = prefix if found else b""
        editor.write(splice, data, len(b"+be"), request, STANDARD.keys, found)
        assert splice.take() == b"fore" + encode_command(
            [meant[0], *[editor.prefix + key for key in meant[1:2]], *meant[2:]]
        )
