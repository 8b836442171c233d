# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""The changes that a plan makes to a request on its way to Redis: closed edits, which compose.

    under another name            DEL k         ->  UNLINK k
    with arguments behind it      SET k v       ->  SET k v EX 300
    both                          GETSET k v    ->  SET k v EX 300 GET

The edits of several rules are a chain. Each edit sees the request as the edits before it left it; the result is what
one after the other would make of the request. Nothing is taken apart for that: the request is written once, with its
changed pieces in place of its own.
"""

from proxy.hotpath.plan.appending import Appending
from proxy.hotpath.upstream.splice import Splice
from proxy.wire.request import Request


class RequestEdit:
    """One rule's edit, and ``then`` the edit of a later rule.

    With an ``appending`` the request must lack, or state itself, what is appended; the new ``name`` is for a request
    that lacks it. Without one, the name is for every request with arguments: a request without any goes on to Redis's
    error about it. ``counter`` is the number of the plan's counter that counts the requests that the edit has changed,
    and ``applied`` says whether the last request is one.
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
        self.appending = appending
        self.then = then
        self.applied = False


class RequestEditor:
    """Applies a chain of edits to one request at a time.

    After ``apply``, ``name`` is the new name, encoded, ``header`` the line with the new number of arguments and
    ``suffix`` what is appended; each is empty where that stays as it is.
    """

    def __init__(self) -> None:
        self.name = b""
        self.header = b""
        self.suffix = b""

    def apply(self, edit: RequestEdit | None, request: Request, data: bytes) -> int:
        """1 if the request changes, 0 if it goes on as it is, -1 if only rules can tell."""
        self.name = b""
        self.header = b""
        self.suffix = b""
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
            elif argc != request.argc or not appending.settled(request, data):
                # What an edit before has appended is not part of the request that could be looked at.
                return -1
            if edit.applied:
                changed = 1
                if edit.name:
                    self.name = edit.name
            edit = edit.then
        return changed

    def write(self, splice: Splice, p: bytes, request: Request) -> int:
        """Put the changed request behind what is in the splice already."""
        if self.suffix:
            splice.put(self.header, 0, len(self.header))
        else:
            splice.put(p, request.start, request.header_end)
        if self.name:
            splice.put(self.name, 0, len(self.name))
            splice.put(p, request.ends[0] + 2, request.end)
        else:
            splice.put(p, request.header_end, request.end)
        if self.suffix:
            splice.put(self.suffix, 0, len(self.suffix))
        return 0
