cimport cython


@cython.final
cdef class CallCounts:
    cdef unsigned long long[::1] numbers
    cdef Py_ssize_t size

    cpdef int add(self, Py_ssize_t command_id) except -1
    @cython.locals(i=Py_ssize_t, number=cython.ulonglong, taken=list)
    cpdef list take(self)
