cimport cython

from proxy.wire.request cimport Request


@cython.final
cdef class ValueProgram:
    cdef readonly Py_ssize_t first
    cdef readonly Py_ssize_t step
    cdef readonly bytes firsts
    cdef readonly bytes seconds

    cpdef bint passes(self, Request request, const unsigned char *data) except -1
    @cython.locals(i=cython.Py_ssize_t, start=cython.Py_ssize_t)
    cdef bint _walk(self, Request request, const unsigned char *data, const unsigned char *firsts,
                    const unsigned char *seconds) except -1
