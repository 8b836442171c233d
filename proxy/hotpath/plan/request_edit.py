# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""The changes that a plan makes to a request on its way to Redis: closed edits, which compose.

    under another name            DEL k         ->  UNLINK k
    with arguments behind it      SET k v       ->  SET k v EX 300
    both                          GETSET k v    ->  SET k v EX 300 GET
    with another number           SET k v EX 60 ->  SET k v EX 57
    a tenant's prefix             GET k         ->  GET acme:k

The edits of several rules are a chain. Each edit sees the request as the edits before it left it; the result is what
one after the other would make of the request. Nothing is taken apart for that: the request is written once, with its
changed pieces in place of its own.
"""

from proxy.commands.keys import KeyFinder
from proxy.hotpath.plan.appending import Appending, StatedNumber
from proxy.hotpath.upstream.splice import Splice
from proxy.wire.request import Request


class RequestEdit:
    """One rule's edit, and ``then`` the edit of a later rule.

    With an ``appending`` the request must lack, or state itself, what is appended; the new ``name`` is for a request
    that lacks it, and another number for one that states it. Without one, the name is for every request with
    arguments: a request without any goes on to Redis's error about it. ``counter`` is the number of the plan's counter
    that counts the requests that the edit has changed, and ``applied`` says whether the last request is one.
    """

    def __init__(
        self,
        counter: int,
        name: bytes = b"",
        appending: Appending | None = None,
        then: "RequestEdit | None" = None,
    ) -> None:
        self.counter = counter
        self.new_name = name
        self.name = b"$%d\r\n%b\r\n" % (len(name), name) if name else b""
        assert not name or appending is None or not appending.stated, "a number varies under the same name"
        self.appending = appending
        self.then = then
        self.applied = False

    def appends(self) -> bool:
        """Whether it, or an edit behind it, may put arguments behind a request."""
        edit: RequestEdit | None = self
        while edit is not None:
            if edit.appending is not None:
                return True
            edit = edit.then
        return False


class RequestEditor:
    """Applies a chain of edits to one request at a time.

    After ``apply``, ``name`` is the new name, encoded, ``header`` the line with the new number of arguments,
    ``suffix`` what is appended, and ``number`` what stands in place of argument ``number_at``, which is behind all
    keys; each is empty where that stays as it is. ``prefix`` is what ``write`` puts before
    keys: whoever lets a client's request be decided sets it before, if the plan has prefixes.
    """

    def __init__(self) -> None:
        self.prefix = b""
        self.name = b""
        self.header = b""
        self.suffix = b""
        self.number = b""
        self.number_at = 0
        self._edits = False

    def forget(self) -> int:
        """The next request gets no more than a prefix."""
        if self._edits:
            self._edits = False
            self.name = b""
            self.header = b""
            self.suffix = b""
            self.number = b""
        return 0

    def apply(self, edit: RequestEdit | None, request: Request, data: bytes) -> int:
        """1 if the request changes, 0 if it goes on as it is, -1 if only rules can tell."""
        self.forget()
        self._edits = True
        argc = request.argc
        changed = 0
        while edit is not None:
            appending = edit.appending
            edit.applied = False
            if appending is None:
                edit.applied = argc > 1
            elif argc == appending.argc:
                suffix = appending.next_suffix()
                self.suffix = suffix if argc == request.argc else self.suffix + suffix
                self.header = appending.header
                argc += appending.added
                edit.applied = True
            elif argc != request.argc or self.number or not appending.settled(request, data):
                # What an edit before has appended or changed is not part of the request that could be looked at.
                return -1
            elif appending.said is not None:
                edit.applied = self._vary(appending.said)
            if edit.applied:
                changed = 1
                if edit.name:
                    self.name = edit.name
            edit = edit.then
        return changed

    def _vary(self, said: StatedNumber) -> bool:
        number = said.varied()
        if number == said.value:
            return False
        digits = b"%d" % number
        self.number = b"$%d\r\n%b\r\n" % (len(digits), digits)
        self.number_at = said.number_at
        return True

    def may_prefix(self, keys: KeyFinder, found: int) -> bool:
        """Whether there is a prefix, and keys, each of which stands behind the one before."""
        if len(self.prefix) == 0:
            return False
        i = 1
        while i < found:
            if keys.indexes[i] <= keys.indexes[i - 1]:
                return False
            i += 1
        return found > 0

    def write(self, splice: Splice, p: bytes, start: int, request: Request, keys: KeyFinder, found: int) -> int:
        """Put what begins at ``start`` and ends with the changed request behind what is in the splice already; ``keys``
        holds as many keys as were ``found``, if there is a prefix to put before them."""
        if self.suffix:
            splice.put(p, start, request.start)
            splice.put(self.header, 0, len(self.header))
            start = request.header_end
        if self.name:
            splice.put(p, start, request.header_end)
            splice.put(self.name, 0, len(self.name))
            start = request.ends[0] + 2
        if len(self.prefix) != 0:
            start = splice.put_prefixed(p, start, request, keys, found, self.prefix)
        if self.number:
            splice.put(p, start, request.ends[self.number_at - 1] + 2)
            splice.put(self.number, 0, len(self.number))
            start = request.ends[self.number_at] + 2
        splice.put(p, start, request.end)
        if self.suffix:
            splice.put(self.suffix, 0, len(self.suffix))
        return 0
