cimport cython

from proxy.hotpath.upstream.splice cimport Splice
from proxy.hotpath.upstream.upstream_pipeline cimport UpstreamPipeline

cdef Py_ssize_t _MOST


@cython.final
cdef class Portion:
    cdef public Splice splice
    cdef public Py_ssize_t count
    cdef public bint wrote
    cdef public int number
    cdef public UpstreamPipeline upstream


@cython.final
cdef class Portions:
    cdef list _by_node
    cdef public list used
    cdef public Splice turns
    cdef public Py_ssize_t count

    @cython.locals(portion=Portion)
    cpdef clear(self)
    @cython.locals(portion=Portion)
    cpdef Portion of(self, Py_ssize_t node)
    cpdef bint full(self) except -1
    cpdef add(self, Portion portion, UpstreamPipeline upstream, const unsigned char *p, Py_ssize_t start,
              Py_ssize_t end, Py_ssize_t count, bint wrote)
