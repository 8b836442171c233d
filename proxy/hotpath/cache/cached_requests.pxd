cimport cython

from proxy.wire.request cimport Request

cdef bytes _PART, _PREFIXED


cpdef bytes part_of(bytes name)
@cython.locals(start=cython.Py_ssize_t, size=cython.Py_ssize_t, head=bytes)
cpdef bytes prefixed(bytes prefix, const unsigned char *data, Request request, Py_ssize_t index)
