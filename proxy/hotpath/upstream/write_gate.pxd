cimport cython


@cython.final
cdef class WriteGate:
    cdef public bint closed
