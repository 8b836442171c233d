cimport cython

from proxy.hotpath.plan.appending cimport Appending
from proxy.hotpath.upstream.splice cimport Splice
from proxy.wire.request cimport Request


@cython.final
cdef class RequestEdit:
    cdef readonly Py_ssize_t counter
    cdef readonly bytes new_name
    cdef readonly bytes name
    cdef readonly Appending appending
    cdef readonly RequestEdit then
    cdef readonly bint applied


@cython.final
cdef class RequestEditor:
    cdef readonly bytes name
    cdef readonly bytes header
    cdef readonly bytes suffix

    @cython.locals(appending=Appending, suffix=bytes, argc=cython.Py_ssize_t, changed=cython.int)
    cpdef int apply(self, RequestEdit edit, Request request, const unsigned char *data) except -2
    cpdef int write(self, Splice splice, const unsigned char *p, Request request) except -1
