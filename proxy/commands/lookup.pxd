cimport cython

from proxy.wire.request cimport Request


@cython.final
cdef class Lookup:
    cdef int mask
    cdef int longest
    cdef int[::1] slots
    cdef int[::1] parents
    cdef int[::1] starts
    cdef int[::1] ends
    cdef int[::1] stands_for
    cdef const unsigned char[::1] containers
    cdef const unsigned char[::1] fold
    cdef const unsigned char[::1] text

    cpdef int find(self, Request request) except -1
    @cython.locals(found=cython.int)
    cdef int find_in(self, Request request, const unsigned char *data) except -1
    @cython.locals(slot=cython.int, found=cython.int)
    cdef int _find_name(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end, int parent) noexcept
    @cython.locals(value=cython.int, i=cython.Py_ssize_t)
    cdef int _hash(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end, int parent) noexcept
    @cython.locals(i=cython.Py_ssize_t)
    cdef bint _same(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end, int at) noexcept
