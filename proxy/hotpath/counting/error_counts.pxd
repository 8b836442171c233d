cimport cython

cdef Py_ssize_t _MOST, _LONGEST
cdef unsigned long long _WORD


@cython.final
cdef class ErrorCounts:
    cdef unsigned long long[::1] _words
    cdef unsigned long long[::1] _numbers

    @cython.locals(word=cython.ulonglong, i=cython.Py_ssize_t, place=cython.Py_ssize_t)
    cpdef int add(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t end) except -1
