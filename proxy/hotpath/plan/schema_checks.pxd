cimport cython

from proxy.commands.keys cimport KeyFinder
from proxy.hotpath.plan.automaton cimport Automaton
from proxy.wire.request cimport Request


cdef int _WRITE, MISNAMED


@cython.final
cdef class EntryProgram:
    cdef readonly Automaton automaton
    cdef readonly long long[::1] reads
    cdef readonly long long[::1] writes
    cdef readonly long long[::1] arguments
    cdef readonly Automaton names
    cdef readonly Py_ssize_t min_length
    cdef readonly Py_ssize_t max_length
    cdef readonly int owner

    @cython.locals(size=cython.Py_ssize_t, i=cython.Py_ssize_t, index=cython.Py_ssize_t, place=cython.int)
    cpdef bint passes(self, Request request, const unsigned char *data, KeyFinder keys, Py_ssize_t found) except -1
    cdef bint _find(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end) except -1
