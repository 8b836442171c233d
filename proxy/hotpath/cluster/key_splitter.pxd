cimport cython

from proxy.hotpath.cluster.portions cimport Portion, Portions
from proxy.hotpath.cluster.router cimport Router
from proxy.hotpath.upstream.upstream_pipeline cimport UpstreamPipeline
from proxy.wire.request cimport Request

cdef int SLOTS
cdef Py_ssize_t _MOST_KEYS, _MOST_NODES
cdef int _REACHED, _NOBODY


@cython.final
cdef class KeySplitter:
    cdef readonly Py_ssize_t groups
    cdef readonly Py_ssize_t keys
    cdef int[::1] slots
    cdef int[::1] nodes
    cdef int[::1] firsts
    cdef int[::1] lasts
    cdef int[::1] sizes
    cdef int[::1] behind
    cdef unsigned short[::1] _group_of

    @cython.locals(groups=cython.Py_ssize_t, group=cython.Py_ssize_t, key=cython.Py_ssize_t, slot=cython.int)
    cpdef Py_ssize_t group(self, Request request, const unsigned char *p, Router router) except -1
    @cython.locals(group=cython.Py_ssize_t, node=cython.int, upstream=UpstreamPipeline)
    cpdef int unreached(self, list nodes) except -2
    @cython.locals(alone=bytes, begin=bytes, group=cython.Py_ssize_t, node=cython.int, upstream=UpstreamPipeline, portion=Portion,
                   key=cython.Py_ssize_t)
    cpdef put(self, Portions portions, list nodes, Request request, const unsigned char *p, bytes name,
              bint wrote)
    @cython.locals(found=list, keys=list, group=cython.Py_ssize_t, key=cython.Py_ssize_t)
    cpdef list grouped(self)
