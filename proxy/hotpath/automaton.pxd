cimport cython


cdef int _NOBODY


@cython.final
cdef class Automaton:
    cdef readonly bytes classes
    cdef readonly int[::1] rows
    cdef readonly int width
    cdef readonly int start

    cpdef int owner(self, bytes key) except -2
    cpdef int find(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t end) except -2
    @cython.locals(row=cython.int, i=cython.Py_ssize_t)
    cdef int _walk(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t end,
                   const unsigned char *classes) except -2
