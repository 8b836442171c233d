cimport cython


cdef int _OUT_OF_STEP


cdef class ReplyScanner:
    cdef public long long elements
    cdef public long long bulk

    @cython.locals(i=cython.Py_ssize_t, j=cython.Py_ssize_t, elements=cython.longlong, bulk=cython.longlong,
                   count=cython.longlong, kind=cython.uchar)
    cpdef Py_ssize_t walk(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t size) except -2
    @cython.locals(i=cython.Py_ssize_t, value=cython.longlong)
    cdef long long _length(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t end) except? -3
