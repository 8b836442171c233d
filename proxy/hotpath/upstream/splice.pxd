cimport cython
from libc.string cimport memcpy


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
    @cython.locals(size=cython.Py_ssize_t, at=cython.Py_ssize_t)
    cpdef int put(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t end) except -1
    cpdef int put_before_name(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t end, Py_ssize_t size,
                              const unsigned char *prefix, Py_ssize_t added) except -1
    @cython.locals(at=cython.Py_ssize_t, last=cython.Py_ssize_t, bound=cython.Py_ssize_t, digits=cython.int)
    cdef int _put_line(self, Py_ssize_t size) except -1
    @cython.locals(at=cython.Py_ssize_t)
    cpdef int fill(self, int byte, Py_ssize_t count) except -1
    @cython.locals(taken=bytes)
    cpdef bytes take(self)
