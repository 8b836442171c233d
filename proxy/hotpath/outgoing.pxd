cimport cython

from proxy.hotpath.debts cimport Creditor, Debts


cdef class Outgoing(Debts):
    cdef public list outgoing
    cdef public bint scheduled
    cdef public bint watched
    cdef public bint closed
    cdef public Creditor unit
    cdef public Creditor partial
    cdef public bytes withheld
    cdef public object write
    cdef public object schedule

    cpdef bint admits(self, Creditor sender) except -1
    cpdef send(self, Creditor sender, bytes chunk)
    cpdef bint offer(self, Creditor sender, bytes chunk) except -1
    cpdef begin_partial(self, Creditor sender)
    @cython.locals(kept=cython.Py_ssize_t)
    cpdef send_partial(self, Creditor sender, bytes piece, bint withhold)
    cpdef end_partial(self, Creditor sender)
    cdef _put(self, bytes chunk)
    @cython.locals(outgoing=list)
    cpdef flush(self)
