cimport cython

from proxy.hotpath.counting.error_counts cimport ErrorCounts
from proxy.hotpath.upstream.error_words cimport read_only, redirected, unable, refuses_command
from proxy.hotpath.upstream.in_flight cimport ReplyPart, ReplySink, InFlightEntry, taken
from proxy.hotpath.upstream.outgoing cimport Outgoing
from proxy.wire.reply cimport ReplyScanner

cdef int FORWARD, HIDE, REPLACE, EDIT, EDIT_ERROR, EDIT_SOME, PEEK, MEMBERS, CONFIRM, NOTE, UNWRAP, TRACE, JOIN
cdef int _MINUS, _DOLLAR, _STAR, _PUSH, _ATTRIBUTE, _BEGINNING, _LATE


cdef class ReplyActions(Outgoing):
    cdef public object listener
    cdef public ReplyScanner scanner
    cdef public ReplySink destination
    cdef public list collected
    cdef public bint counts
    cdef public bint late
    cdef Py_ssize_t late_sent
    cdef public bint arrays
    cdef public bint read_only
    cdef public bint reads_only
    cdef public bint doubts
    cdef public ErrorCounts errors
    cdef public long long large

    @cython.locals(n=cython.Py_ssize_t, whole=cython.bint, part=ReplyPart, pieces=list)
    cdef Py_ssize_t _continue(self, bytes data, const unsigned char *p, Py_ssize_t i, Py_ssize_t size) except -3
    @cython.locals(entry=InFlightEntry)
    cdef _complete_head(self)
    @cython.locals(scanner=ReplyScanner, i=cython.Py_ssize_t, n=cython.Py_ssize_t, begun=cython.Py_ssize_t,
                   done=cython.Py_ssize_t, due=cython.Py_ssize_t)
    cdef Py_ssize_t _forward(self, InFlightEntry entry, bytes data, const unsigned char *p, Py_ssize_t start,
                             Py_ssize_t size) except -3
    @cython.locals(scanner=ReplyScanner, sink=ReplySink)
    cdef Py_ssize_t _pass_on(self, InFlightEntry entry, bytes data, const unsigned char *p, Py_ssize_t start,
                             Py_ssize_t begun, Py_ssize_t i, Py_ssize_t done) except -3
    @cython.locals(n=cython.Py_ssize_t)
    cdef Py_ssize_t _stream(self, bytes data, const unsigned char *p, Py_ssize_t i, Py_ssize_t size,
                            ReplySink sink, bint counts) except -3
    @cython.locals(action=cython.int, n=cython.Py_ssize_t)
    cdef Py_ssize_t _special(self, InFlightEntry entry, bytes data, const unsigned char *p, Py_ssize_t i,
                             Py_ssize_t size) except -3
    @cython.locals(scanner=ReplyScanner, i=cython.Py_ssize_t, begun=cython.Py_ssize_t,
                   done=cython.Py_ssize_t, passes=cython.int, n=cython.Py_ssize_t)
    cdef Py_ssize_t _edit_some(self, InFlightEntry entry, bytes data, const unsigned char *p, Py_ssize_t start,
                               Py_ssize_t size) except -3
    @cython.locals(n=cython.Py_ssize_t, opening=bytes, told=cython.bint, passes=cython.int)
    cdef int _passes(self, InFlightEntry entry, const unsigned char *p, Py_ssize_t i, Py_ssize_t size) except -2
    @cython.locals(n=cython.Py_ssize_t)
    cdef Py_ssize_t _collect(self, InFlightEntry entry, bytes data, const unsigned char *p, Py_ssize_t i,
                             Py_ssize_t size) except -3
    @cython.locals(begun=bytes, parts=list)
    cdef Py_ssize_t _complete_frame(self, InFlightEntry entry, list pieces, Py_ssize_t n) except -3
    @cython.locals(action=cython.int)
    cdef bint _whole(self, InFlightEntry entry, bytes frame) except -1
    cdef _bring_edited(self, InFlightEntry entry, Py_ssize_t sent, bytes edited)
    cdef complete_edited(self, InFlightEntry entry, Py_ssize_t sent, Py_ssize_t size)
    @cython.locals(error=bytes, went=cython.Py_ssize_t)
    cdef Py_ssize_t _redirected(self, InFlightEntry entry, const unsigned char *p, Py_ssize_t i, Py_ssize_t n) except -3
    @cython.locals(n=cython.Py_ssize_t)
    cdef Py_ssize_t _trace(self, InFlightEntry entry, bytes data, const unsigned char *p, Py_ssize_t i,
                             Py_ssize_t size) except -3
    @cython.locals(scanner=ReplyScanner, n=cython.Py_ssize_t, start=cython.Py_ssize_t, done=cython.Py_ssize_t,
                   due=cython.Py_ssize_t, whole=cython.bint, part=ReplyPart)
    cdef Py_ssize_t _take(self, InFlightEntry entry, bytes data, const unsigned char *p, Py_ssize_t i,
                          Py_ssize_t size) except -3
    @cython.locals(count=cython.Py_ssize_t, hidden=cython.Py_ssize_t, unwraps=cython.bint)
    cdef Py_ssize_t _expand(self, InFlightEntry entry, bytes data, const unsigned char *p, Py_ssize_t i,
                            Py_ssize_t n) except -3
    @cython.locals(n=cython.Py_ssize_t)
    cdef _read_error(self, const unsigned char *p, Py_ssize_t i, Py_ssize_t size)
    cdef bytes _cut(self, bytes data, const unsigned char *p, Py_ssize_t start, Py_ssize_t end)

