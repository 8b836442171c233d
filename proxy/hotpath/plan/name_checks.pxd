cimport cython

from proxy.commands.keys cimport KeyFinder
from proxy.hotpath.plan.automaton cimport Automaton
from proxy.wire.request cimport Request


cdef int _SEPARATOR, _FORBIDDEN


@cython.final
cdef class NameProgram:
    cdef public bytes allowed
    cdef public bytes kinds
    cdef public bint empty_segments
    cdef public Py_ssize_t min_length
    cdef public Py_ssize_t max_length
    cdef public int separator
    cdef public int min_segments
    cdef public int max_segments
    cdef public int access
    cdef public Automaton language
    cdef public bint counts

    @cython.locals(i=cython.Py_ssize_t, index=cython.Py_ssize_t)
    cpdef bint passes(self, Request request, const unsigned char *data, KeyFinder keys, Py_ssize_t found) except -1
    cdef bint _fits(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(segments=cython.int, segment_start=cython.Py_ssize_t, i=cython.Py_ssize_t, kind=cython.int)
    cdef bint _walk(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t end,
                    const unsigned char *kinds) except -1
