cimport cython


cdef int _NOBODY, _MISNAMED


@cython.final
cdef class Automaton:
    cdef readonly bytes classes
    cdef readonly int[::1] rows
    cdef readonly int width
    cdef readonly int start
    cdef readonly int settled

    cpdef int owner(self, bytes key) except -3
    cpdef int find(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t end) except -3
    cpdef int find_named(self, Automaton names, const unsigned char *p, Py_ssize_t start, Py_ssize_t end) except -3
    @cython.locals(row=cython.Py_ssize_t, step=cython.Py_ssize_t, settled=cython.Py_ssize_t, i=cython.Py_ssize_t)
    cdef int _walk(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t end,
                   const unsigned char *classes) except -3
