cimport cython


@cython.final
cdef class Keyword:
    cdef readonly bytes text
    cdef Py_ssize_t size

    @cython.locals(size=cython.Py_ssize_t)
    cpdef bint stands_at(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end) except -1


@cython.locals(i=cython.Py_ssize_t, byte=cython.uchar)
cdef bint _same(const unsigned char *data, Py_ssize_t start, const unsigned char *text, Py_ssize_t size) noexcept
