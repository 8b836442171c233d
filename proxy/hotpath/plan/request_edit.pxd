cimport cython

from proxy.commands.keys cimport KeyFinder
from proxy.hotpath.plan.appending cimport Appending, StatedNumber
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

    @cython.locals(edit=RequestEdit)
    cpdef bint appends(self) except -1


@cython.final
cdef class RequestEditor:
    cdef public bytes prefix
    cdef readonly bytes name
    cdef readonly bytes header
    cdef readonly bytes suffix
    cdef readonly bytes number
    cdef readonly Py_ssize_t number_at
    cdef bint _edits

    cpdef int forget(self) except -1
    @cython.locals(appending=Appending, suffix=bytes, argc=cython.Py_ssize_t, changed=cython.int)
    cpdef int apply(self, RequestEdit edit, Request request, const unsigned char *data) except -2
    @cython.locals(number=cython.Py_ssize_t, digits=bytes)
    cdef bint _vary(self, StatedNumber said) except -1
    @cython.locals(i=cython.Py_ssize_t)
    cpdef bint may_prefix(self, KeyFinder keys, Py_ssize_t found) except -1
    cpdef int write(self, Splice splice, const unsigned char *p, Py_ssize_t start, Request request, KeyFinder keys,
                    Py_ssize_t found) except -1
