cimport cython

from proxy.hotpath.upstream.in_flight cimport InFlightEntry, InFlightQueue, ReplyPart, ReplySink, taken

cdef int FORWARD, JOIN, LOCAL
cdef Py_ssize_t _SHORT, _MOST_KEPT


cdef class Outgoing(InFlightQueue):
    cdef public list outgoing
    cdef public bint scheduled
    cdef public list sent_calls
    cdef public bint closed
    cdef public ReplySink unit
    cdef public ReplySink partial
    cdef public bytes withheld
    cdef public object write
    cdef public object schedule
    cdef public ReplySink owner
    cdef public long long commands
    cdef public object redirects

    cpdef bint admits(self, ReplySink sender) except -1
    cpdef send_commands(self, ReplySink sender, bytes chunk)
    cpdef bint offer_commands(self, ReplySink sender, bytes chunk) except -1
    @cython.locals(admitted=cython.bint)
    cpdef send_run(self, ReplySink sink, bytes chunk, Py_ssize_t count)
    cpdef send_parts(self, ReplySink sink, bytes chunk, Py_ssize_t count, ReplyPart part)
    cdef _await(self, ReplySink sink, Py_ssize_t count, int action, payload, bytes chunk)
    cpdef enqueue(self, ReplySink sink, Py_ssize_t due, int action, payload)
    @cython.locals(sink=ReplySink, due=cython.Py_ssize_t, action=cython.int)
    cpdef expect(self, InFlightEntry entry)
    @cython.locals(again=InFlightEntry)
    cpdef send_again(self, InFlightEntry entry, ReplySink sender, bytes sent)
    cpdef begin_partial(self, ReplySink sender)
    @cython.locals(kept=cython.Py_ssize_t)
    cpdef send_partial(self, ReplySink sender, bytes piece, bint withhold)
    cpdef end_partial(self, ReplySink sender)
    cdef _put(self, bytes chunk)
    cpdef release(self)
    @cython.locals(outgoing=list, calls=list)
    cpdef flush(self)
