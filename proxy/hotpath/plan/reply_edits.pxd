cimport cython

from proxy.hotpath.plan.name_checks cimport NameProgram


@cython.final
cdef class ReplyProgram:
    cdef readonly NameProgram names
    cdef readonly int place
    cdef public object edit
