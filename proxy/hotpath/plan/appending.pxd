cimport cython

from proxy.commands.words cimport Keyword
from proxy.wire.request cimport Request


cdef Py_ssize_t _MOST_DIGITS


@cython.final
cdef class StatedNumber:
    cdef readonly Py_ssize_t argc
    cdef readonly Keyword word
    cdef readonly Py_ssize_t word_at
    cdef readonly Py_ssize_t number_at
    cdef readonly long long least
    cdef readonly long long most
    cdef readonly double[::1] factors
    cdef readonly Py_ssize_t turn
    cdef readonly long long value

    @cython.locals(i=cython.Py_ssize_t, end=cython.Py_ssize_t, value=cython.longlong)
    cpdef bint passes(self, Request request, const unsigned char *data) except -1
    @cython.locals(varied=cython.Py_ssize_t)
    cpdef Py_ssize_t varied(self) except -1


@cython.final
cdef class Appending:
    cdef readonly Py_ssize_t argc
    cdef readonly Py_ssize_t added
    cdef readonly list suffixes
    cdef readonly list satisfied_by
    cdef readonly list stated
    cdef readonly StatedNumber said
    cdef readonly Py_ssize_t turn
    cdef readonly bytes header

    cpdef bytes next_suffix(self)
    @cython.locals(argc=cython.Py_ssize_t, word=Keyword, stated=StatedNumber)
    cpdef bint settled(self, Request request, const unsigned char *data) except -1
