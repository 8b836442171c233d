cimport cython

from proxy.hotpath.cache.cached_reads cimport CachedReads
from proxy.hotpath.cluster.key_splitter cimport KeySplitter
from proxy.hotpath.cluster.portions cimport Portion, Portions
from proxy.hotpath.cluster.router cimport Router
from proxy.hotpath.counting.call_counts cimport CallCounts
from proxy.hotpath.intake.command_sender cimport CommandSender
from proxy.hotpath.order.split_join cimport SplitCommands
from proxy.hotpath.plan.hot_path_config cimport HotPathConfig
from proxy.hotpath.plan.plan cimport Plan
from proxy.hotpath.replicas.client_reads cimport ClientReads
from proxy.hotpath.upstream.upstream_pipeline cimport UpstreamPipeline
from proxy.wire.request cimport Request, RequestLimits

cdef int EDIT, JUDGE, PASS, COMPLETE, REACHED
cdef int MAY_WRITE, COUNTED, MISSED, UNREAD
cdef int SPECIAL, STALLED, FULL, ANSWERED
cdef Py_ssize_t _LARGE_ANSWER, _MOST_AT_ONCE
cdef KeySplitter _SPLITTER


cdef class SplitRuns:
    cdef public CommandSender sender
    cdef public object handler
    cdef public HotPathConfig config
    cdef public CallCounts calls
    cdef public RequestLimits limits
    cdef public bytes simple
    cdef public bint direct
    cdef public bint again
    cdef public int command_id
    cdef public list token_sets
    cdef public long long sampled
    cdef public bint passes
    cdef public bytes prefix
    cdef public bint used_prefix
    cdef public bint missed
    cdef public CachedReads cached_reads

    cdef int _remember(self, bytes payload) except -1
    @cython.locals(request=Request, plan=Plan, router=Router, sender=CommandSender, commands=SplitCommands,
                   reads=ClientReads, remembers=CachedReads, code=cython.int, command_id=cython.int, kinds="const unsigned char *", parts=cython.Py_ssize_t,
                   decision=cython.int, name=bytes, wrote=cython.bint, node=cython.int, simple="const unsigned char *")
    cdef int _split(self, HotPathConfig config, Portions portions, const unsigned char *p) except -1
    @cython.locals(sender=CommandSender, request=Request, command_id=cython.int, payload=bytes, absent=cython.bint)
    cdef int _answer_split(self, HotPathConfig config, CachedReads remembers, const unsigned char *p) except -1
    @cython.locals(nodes=list, target=UpstreamPipeline)
    cdef UpstreamPipeline _connection(self, int node)
