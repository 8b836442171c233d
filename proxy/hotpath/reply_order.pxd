cimport cython

from proxy.hotpath.debts cimport Creditor
from proxy.hotpath.ledger cimport Ledger


cdef class Segment(Creditor):
    cdef public ReplyOrder order
    cdef public Ledger source
    cdef public Py_ssize_t asked
    cdef public list held
    cdef public Segment following


cdef class ReplyOrder:
    cdef public Creditor asker
    cdef public Segment first
    cdef public Segment last
    cdef public Py_ssize_t beyond
    cdef public Py_ssize_t size

    @cython.locals(segment=Segment)
    cpdef submit(self, Ledger source, bytes chunk, Py_ssize_t count)
    @cython.locals(last=Segment, segment=Segment)
    cdef Segment _segment(self, Ledger source)
    cdef _ask(self, Segment segment, Py_ssize_t count)
    @cython.locals(asker=Creditor, chunk=bytes)
    cpdef take(self, Segment segment)
    @cython.locals(chunk=bytes)
    cdef _leave(self, Segment segment)
    @cython.locals(asker=Creditor, segment=Segment, done=cython.Py_ssize_t)
    cpdef advance(self)
