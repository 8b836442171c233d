cimport cython
from libc.string cimport memcpy

from proxy.commands.keys cimport KeyFinder
from proxy.wire.request cimport Request

cdef Py_ssize_t _FIRST_CAPACITY, _KEPT_CAPACITY, _LONGEST_LINE
cdef unsigned char _DOLLAR, _ZERO, _CR, _LF
cdef bint _INTERPRETED


@cython.final
cdef class Splice:
    cdef readonly Py_ssize_t size
    cdef Py_ssize_t _capacity
    cdef bytearray _space
    cdef unsigned char *target

    @cython.locals(space=bytearray)
    cdef int _make(self, Py_ssize_t capacity) except -1
    cpdef int cut(self, Py_ssize_t size) except -1
    cpdef int put_behind(self, Py_ssize_t kept, const unsigned char *p, Py_ssize_t start, Py_ssize_t end) except -1
    cpdef int put(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(added=cython.Py_ssize_t, most=cython.Py_ssize_t, name="const unsigned char *", at=cython.Py_ssize_t,
                   i=cython.Py_ssize_t, index=cython.Py_ssize_t, begin=cython.Py_ssize_t)
    cpdef Py_ssize_t put_prefixed(self, const unsigned char *p, Py_ssize_t start, Request request, KeyFinder keys,
                                  Py_ssize_t found, bytes prefix) except -1
    cdef inline Py_ssize_t _copy(self, Py_ssize_t at, const unsigned char *p, Py_ssize_t start,
                                 Py_ssize_t end) noexcept
    @cython.locals(digits=cython.int, bound=cython.Py_ssize_t, last=cython.Py_ssize_t)
    cdef inline Py_ssize_t _line(self, Py_ssize_t at, Py_ssize_t size) noexcept
    @cython.locals(at=cython.Py_ssize_t)
    cpdef int fill(self, int byte, Py_ssize_t count) except -1
    @cython.locals(taken=bytes)
    cpdef bytes take(self)
