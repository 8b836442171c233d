cimport cython

from proxy.hotpath.replicas.client_reads cimport ClientReads
from proxy.hotpath.upstream.in_flight cimport ReplySink
from proxy.hotpath.order.interleaved cimport Interleaved, interleave
from proxy.hotpath.cluster.key_splitter cimport KeySplitter
from proxy.hotpath.cluster.portions cimport Portion, Portions
from proxy.hotpath.order.reply_order cimport ReplyOrder, Segment
from proxy.hotpath.cluster.router cimport Router
from proxy.hotpath.order.split_join cimport SplitCommands, SplitJoin
from proxy.hotpath.upstream.upstream_pipeline cimport UpstreamPipeline


cdef class CommandSender(ReplySink):
    cdef public object listener
    cdef public UpstreamPipeline upstream
    cdef public list nodes
    cdef public ReplyOrder order
    cdef public long long forwarded
    cdef public long long map_version
    cdef public bint redirecting
    cdef public bint notify_on_advance
    cdef public object unit
    cdef public bint writes
    cdef public long long written_nodes
    cdef public long long remembered
    cdef public long long behind
    cdef public ClientReads reads

    cpdef Py_ssize_t room(self, Py_ssize_t window) except? -1
    cpdef bint answer(self, bytes payload) except -1
    cpdef note_write(self, UpstreamPipeline upstream)
    @cython.locals(segment=Segment)
    cdef forward_run(self, UpstreamPipeline upstream, bytes chunk, Py_ssize_t count, bint wrote)
    @cython.locals(whole=Interleaved, portion=Portion, upstream=UpstreamPipeline)
    cpdef forward_portions(self, Portions portions)
    @cython.locals(order=ReplyOrder, segment=Segment, turns=bytes, nodes=cython.Py_ssize_t, join=SplitJoin,
                   index=cython.Py_ssize_t, portion=Portion, upstream=UpstreamPipeline)
    cpdef forward_split(self, Portions portions, KeySplitter splitter, SplitCommands commands, int command_id, bytes name)
    cpdef use(self, UpstreamPipeline upstream)
    @cython.locals(segment=Segment)
    cpdef bint awaits_elsewhere(self)
    @cython.locals(order=ReplyOrder)
    cpdef ReplyOrder begin_order(self)
    cpdef bint fits(self, Router router) except -1
    @cython.locals(order=ReplyOrder)
    cpdef advance(self)
    cpdef go_on(self)
