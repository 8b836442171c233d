cimport cython

from proxy.commands.keys cimport KeyFinder
from proxy.hotpath.plan.name_checks cimport NameProgram
from proxy.hotpath.plan.value_checks cimport ValueProgram
from proxy.wire.request cimport Request


@cython.final
cdef class KeyProgram:
    cdef readonly NameProgram names
    cdef readonly Py_ssize_t size
    cdef readonly list values

    @cython.locals(small=cython.bint)
    cpdef bint passes(self, Request request, const unsigned char *data, KeyFinder keys, Py_ssize_t found) except -1
    @cython.locals(values=ValueProgram)
    cdef bint _begin_well(self, Request request, const unsigned char *data) except -1
