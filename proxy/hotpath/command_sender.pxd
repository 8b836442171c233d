cimport cython

from proxy.hotpath.in_flight cimport ReplySink
from proxy.hotpath.reply_order cimport ReplyOrder, Segment
from proxy.hotpath.upstream_pipeline cimport UpstreamPipeline


cdef class CommandSender(ReplySink):
    cdef public object listener
    cdef public UpstreamPipeline upstream
    cdef public list nodes
    cdef public ReplyOrder order
    cdef public long long forwarded

    @cython.locals(segment=Segment)
    cdef forward_run(self, UpstreamPipeline upstream, bytes chunk, Py_ssize_t count, bint wrote)
    cpdef use(self, UpstreamPipeline upstream)
    @cython.locals(segment=Segment)
    cpdef bint awaits_elsewhere(self)
    cpdef ReplyOrder begin_order(self)
    @cython.locals(order=ReplyOrder)
    cpdef advance(self)
