cimport cython

from proxy.hotpath.in_flight cimport ReplySink, InFlightQueue


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

    cpdef bint admits(self, ReplySink sender) except -1
    cpdef send_commands(self, ReplySink sender, bytes chunk)
    cpdef bint offer_commands(self, ReplySink sender, bytes chunk) except -1
    cpdef begin_partial(self, ReplySink sender)
    @cython.locals(kept=cython.Py_ssize_t)
    cpdef send_partial(self, ReplySink sender, bytes piece, bint withhold)
    cpdef end_partial(self, ReplySink sender)
    cdef _put(self, bytes chunk)
    cpdef release(self)
    @cython.locals(outgoing=list, calls=list)
    cpdef flush(self)
