cimport cython

from proxy.hotpath.upstream.in_flight cimport ReplyPart
from proxy.hotpath.order.reply_order cimport ReplyOrder, Segment
from proxy.wire.reply cimport ReplyScanner

cdef long long _MOST_JOINED, MOST_HELD
cdef bytes _OTHER_KEYS
cdef int _MINUS, _COLON


cdef class JoinPart(ReplyPart):
    cdef readonly Join join
    cdef readonly Py_ssize_t index
    cdef bint whole
    cdef list run

    cpdef JoinPart set_apart(self)
    @cython.locals(join=Join)
    cpdef take(self, bytes piece, Py_ssize_t frames, bint whole)


cdef class Join:
    cdef readonly Segment segment
    cdef readonly Py_ssize_t commands
    cdef readonly Py_ssize_t missing
    cdef list runs
    cdef list firsts
    cdef long long size
    cdef bint dropped
    cdef public long long most
    cdef Py_ssize_t errors
    cdef object joined
    cdef public object edit

    cpdef JoinPart expect(self, Py_ssize_t index)
    cdef list begin_run(self, Py_ssize_t index)
    @cython.locals(segment=Segment, order=ReplyOrder, run=list)
    cdef bint keeps(self, Py_ssize_t size) except -1
    cpdef came(self, Py_ssize_t frames)
    @cython.locals(segment=Segment, reply=bytes)
    cdef _finish(self)
    @cython.locals(frames=list, scanner=ReplyScanner, number=cython.Py_ssize_t, run=bytes, index=cython.Py_ssize_t,
                   i=cython.Py_ssize_t, end=cython.Py_ssize_t)
    cpdef list frames(self)
    cpdef bytes failed(self)
    cpdef bytes reply(self)


cdef class ValuesJoin(Join):
    cdef list places
    cdef Py_ssize_t keys

    cpdef bytes reply(self)


@cython.locals(values=list, command=cython.Py_ssize_t, into=list, frame=bytes)
cpdef bytes values_by_key(list frames, list places, Py_ssize_t keys)
@cython.locals(i=cython.Py_ssize_t, n=cython.Py_ssize_t, count=cython.Py_ssize_t, scanner=ReplyScanner, place=cython.Py_ssize_t)
cdef bint _place(const unsigned char *p, Py_ssize_t size, list places, list values) except -1


cdef class SumJoin(Join):
    cpdef bytes reply(self)


@cython.locals(total=cython.longlong, frame=bytes)
cpdef bytes sum_of(list frames)
