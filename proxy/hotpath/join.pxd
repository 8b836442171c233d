cimport cython

from proxy.hotpath.in_flight cimport ReplyPart
from proxy.hotpath.reply_order cimport Segment
from proxy.wire.reply cimport ReplyScanner

cdef long long _MOST_JOINED
cdef int _MINUS, _COLON


cdef class JoinPart(ReplyPart):
    cdef readonly Join join
    cdef readonly Py_ssize_t index
    cdef list pieces

    @cython.locals(join=Join, index=cython.Py_ssize_t)
    cpdef take(self, bytes piece, bint whole)


cdef class Join:
    cdef readonly Segment segment
    cdef readonly list frames
    cdef readonly Py_ssize_t missing
    cdef long long size
    cdef public long long most
    cdef Py_ssize_t errors
    cdef object joined
    cdef public object edit

    cpdef JoinPart expect(self, Py_ssize_t index)
    cpdef came(self, Py_ssize_t index, bytes frame)
    @cython.locals(segment=Segment, reply=bytes)
    cdef _finish(self)
    cpdef bytes reply(self)


cdef class ValuesJoin(Join):
    cdef list places
    cdef Py_ssize_t keys

    @cython.locals(values=list, command=cython.Py_ssize_t, places=list, frame=bytes)
    cpdef bytes reply(self)


@cython.locals(i=cython.Py_ssize_t, n=cython.Py_ssize_t, count=cython.Py_ssize_t, scanner=ReplyScanner, place=cython.Py_ssize_t)
cdef bint _place(const unsigned char *p, Py_ssize_t size, list places, list values) except -1


cdef class SumJoin(Join):
    @cython.locals(total=cython.longlong, frame=bytes)
    cpdef bytes reply(self)
