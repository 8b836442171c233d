cimport cython

from proxy.commands.keys cimport KeyFinder
from proxy.hotpath.cluster.router cimport Router
from proxy.wire.request cimport Request


@cython.final
cdef class Split:
    cdef readonly bytes name
    cdef readonly list keys
    cdef readonly Py_ssize_t width
    cdef Py_ssize_t options
    cdef bytes behind
    cdef bytes begin
    cdef readonly list nodes
    cdef readonly list chunks
    cdef readonly list counts
    cdef readonly list places

    @cython.locals(pieces=list)
    cpdef bytes command(self, list places)
    @cython.locals(argc=cython.Py_ssize_t, number=bytes, pieces=list)
    cdef bytes _counted(self, list places)
    cdef add_node(self, int node, list commands)


@cython.locals(found=cython.Py_ssize_t, first=cython.Py_ssize_t, options=cython.Py_ssize_t, width=cython.Py_ssize_t, by_slot=dict, by_node=dict, arguments=list,
               place=cython.Py_ssize_t, index=cython.Py_ssize_t, slot=cython.int, places=list, result=Split,
               node=cython.int, commands=list)
cpdef Split split(int command_id, Request request, const unsigned char *data, KeyFinder keys, Router router)
