cimport cython
from libc.string cimport memcpy


cdef Py_ssize_t _FIRST_CAPACITY, _KEPT_CAPACITY
cdef bint _INTERPRETED


@cython.final
cdef class Splice:
    cdef readonly Py_ssize_t size
    cdef Py_ssize_t _capacity
    cdef bytearray _space
    cdef unsigned char *target

    @cython.locals(space=bytearray)
    cdef int _make(self, Py_ssize_t capacity) except -1
    cpdef clear(self)
    @cython.locals(size=cython.Py_ssize_t, at=cython.Py_ssize_t)
    cpdef int put(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(at=cython.Py_ssize_t)
    cpdef int fill(self, int byte, Py_ssize_t count) except -1
    @cython.locals(taken=bytes)
    cpdef bytes take(self)
