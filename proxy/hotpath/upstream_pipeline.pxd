cimport cython

from proxy.hotpath.error_counts cimport ErrorCounts
from proxy.hotpath.in_flight cimport ReplyPart, ReplySink, InFlightEntry
from proxy.hotpath.outgoing cimport Outgoing
from proxy.wire.reply cimport ReplyScanner

cdef int FORWARD, HIDE, LOCAL, REPLACE, EDIT, PEEK, MEMBERS, CONFIRM, NOTE, UNWRAP, TRACE, JOIN
cdef int MESSAGE, CONFIRMATION, REPLY
cdef int _MINUS, _STAR, _PUSH, _SHORT
cdef Py_ssize_t _MOST_KEPT


cdef class UpstreamPipeline(Outgoing):
    cdef public ReplyScanner scanner
    cdef public bytes rest
    cdef public ReplySink destination
    cdef public bint counts
    cdef public bint usable
    cdef public bint relay
    cdef public bint read_only
    cdef public bint read_only_told
    cdef public ReplySink owner
    cdef public object listener
    cdef public object subscriptions
    cdef public bint arrays
    cdef public long long commands
    cdef public long long strays
    cdef public ErrorCounts errors
    cdef public long long large
    cdef public object redirects
    cdef public long long node_bit

    @cython.locals(admitted=cython.bint)
    cpdef send_run(self, ReplySink sink, bytes chunk, Py_ssize_t count)
    cpdef enqueue(self, ReplySink sink, Py_ssize_t due, int action, payload)
    @cython.locals(sink=ReplySink, due=cython.Py_ssize_t, action=cython.int)
    cpdef expect(self, InFlightEntry entry)
    @cython.locals(position=cython.Py_ssize_t, buffer=bytes)
    cpdef receive(self, data)
    @cython.locals(i=cython.Py_ssize_t, n=cython.Py_ssize_t)
    cdef Py_ssize_t _distribute(self, bytes data, const unsigned char *p, Py_ssize_t size) except -3
    @cython.locals(n=cython.Py_ssize_t, part=ReplyPart)
    cdef Py_ssize_t _continue(self, bytes data, const unsigned char *p, Py_ssize_t i, Py_ssize_t size) except -3
    @cython.locals(entry=InFlightEntry)
    cdef _complete_head(self)
    @cython.locals(scanner=ReplyScanner, i=cython.Py_ssize_t, n=cython.Py_ssize_t, begun=cython.Py_ssize_t,
                   done=cython.Py_ssize_t, due=cython.Py_ssize_t, sink=ReplySink)
    cdef Py_ssize_t _forward(self, InFlightEntry entry, bytes data, const unsigned char *p, Py_ssize_t start,
                             Py_ssize_t size) except -3
    @cython.locals(n=cython.Py_ssize_t)
    cdef Py_ssize_t _stream(self, bytes data, const unsigned char *p, Py_ssize_t i, Py_ssize_t size,
                            ReplySink sink, bint counts) except -3
    @cython.locals(action=cython.int, n=cython.Py_ssize_t)
    cdef Py_ssize_t _special(self, InFlightEntry entry, bytes data, const unsigned char *p, Py_ssize_t i,
                             Py_ssize_t size) except -3
    @cython.locals(error=bytes, taken=cython.Py_ssize_t)
    cdef Py_ssize_t _redirected(self, InFlightEntry entry, const unsigned char *p, Py_ssize_t i, Py_ssize_t n) except -3
    @cython.locals(n=cython.Py_ssize_t)
    cdef Py_ssize_t _trace(self, InFlightEntry entry, bytes data, const unsigned char *p, Py_ssize_t i,
                             Py_ssize_t size) except -3
    @cython.locals(n=cython.Py_ssize_t, part=ReplyPart)
    cdef Py_ssize_t _take(self, InFlightEntry entry, bytes data, const unsigned char *p, Py_ssize_t i,
                          Py_ssize_t size) except -3
    @cython.locals(count=cython.Py_ssize_t, hidden=cython.Py_ssize_t, unwraps=cython.bint)
    cdef Py_ssize_t _expand(self, InFlightEntry entry, bytes data, const unsigned char *p, Py_ssize_t i,
                            Py_ssize_t n) except -3
    @cython.locals(said=cython.int, n=cython.Py_ssize_t)
    cdef Py_ssize_t _push(self, bytes data, const unsigned char *p, Py_ssize_t i, Py_ssize_t size) except -3
    @cython.locals(n=cython.Py_ssize_t, head=InFlightEntry, frame=bytes)
    cdef Py_ssize_t _confirm(self, bytes data, const unsigned char *p, Py_ssize_t i, Py_ssize_t size) except -3
    @cython.locals(n=cython.Py_ssize_t)
    cdef Py_ssize_t _uninvited(self, bytes data, const unsigned char *p, Py_ssize_t i, Py_ssize_t size) except -3
    @cython.locals(n=cython.Py_ssize_t)
    cdef _read_error(self, const unsigned char *p, Py_ssize_t i, Py_ssize_t size)
    cdef bytes _cut(self, bytes data, const unsigned char *p, Py_ssize_t start, Py_ssize_t end)
    cdef _end(self)
    @cython.locals(unanswered=list)
    cpdef list abandon(self)


cdef bint _is_redirect(const unsigned char *p, Py_ssize_t i, Py_ssize_t end) except -1
