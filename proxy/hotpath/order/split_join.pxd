cimport cython

from proxy.hotpath.order.join cimport Join, sum_of, values_by_key
from proxy.hotpath.upstream.splice cimport Splice
from proxy.wire.reply cimport ReplyScanner

cdef int _VALUES, _SUM
cdef int _COLON, _STAR, _ONE
cdef Py_ssize_t _MOST_RUNS, _MOST_DIGITS


@cython.final
cdef class SplitCommands:
    cdef public bytes kinds
    cdef public object failed


cdef class SplitJoin(Join):
    cdef SplitCommands split_commands
    cdef int command_id
    cdef bytes name
    cdef bytes turns
    cdef list groups
    cdef Py_ssize_t keys
    cdef Py_ssize_t connections

    cpdef bytes failed(self)
    @cython.locals(by_key=cython.bint, merged=bytes)
    cpdef bytes reply(self)
    cdef list _places(self)


@cython.final
cdef class Merger:
    cdef long long[::1] at
    cdef Splice space
    cdef ReplyScanner scanner

    @cython.locals(space=Splice, scanner=ReplyScanner, turns="const unsigned char *", p="const unsigned char *",
                   total=cython.Py_ssize_t, runs=list, pieces=list, run=bytes, i=cython.Py_ssize_t,
                   turn=cython.Py_ssize_t, size=cython.Py_ssize_t, start=cython.Py_ssize_t, end=cython.Py_ssize_t,
                   header=bytes)
    cdef bytes values(self, SplitJoin join)
    @cython.locals(total=cython.longlong, added=cython.longlong, pieces=list, piece=bytes)
    cdef bytes sum(self, SplitJoin join)
    @cython.locals(total=cython.longlong, value=cython.longlong, first=cython.Py_ssize_t, i=cython.Py_ssize_t)
    cdef Py_ssize_t _sum_in(self, const unsigned char *p, Py_ssize_t size) except -2


cdef Merger _MERGER
