cimport cython

from proxy.commands.keys cimport KeyFinder
from proxy.hotpath.plan.automaton cimport Automaton
from proxy.wire.request cimport Request

cdef int NOBODY
cdef int _OUTSIDE, _MIXED, _UNTOLD, _AT_PRIMARY


@cython.final
cdef class ReplicaReads:
    cdef public Automaton keys
    cdef public tuple terms
    cdef public int[::1] counters
    cdef public double[::1] max_lags
    cdef public bytes enforced
    cdef public bytes same_zone

    @cython.locals(place=cython.int, other=cython.int, outside=cython.bint, inside=cython.bint, mixed=cython.bint,
                   i=cython.Py_ssize_t, index=cython.Py_ssize_t)
    cpdef int place(self, Request request, const unsigned char *data, KeyFinder keys, Py_ssize_t found) except -5
    cpdef int in_force(self, int place) except -5
