cimport cython

from proxy.hotpath.cache.cached_reads cimport CachedReads
from proxy.hotpath.cache.cached_reply cimport CachedReply
from proxy.hotpath.replicas.client_reads cimport ClientReads
from proxy.hotpath.intake.command_sender cimport CommandSender
from proxy.hotpath.counting.call_counts cimport CallCounts
from proxy.hotpath.plan.hot_path_config cimport HotPathConfig
from proxy.hotpath.cluster.key_splitter cimport KeySplitter
from proxy.hotpath.plan.leased_tokens cimport TokenSpender
from proxy.hotpath.intake.open_run cimport OpenRun, SpareRun
from proxy.hotpath.intake.repeated_reads cimport RepeatedReads
from proxy.hotpath.plan.plan cimport Plan
from proxy.hotpath.cluster.portions cimport Portion, Portions
from proxy.hotpath.cluster.router cimport Router
from proxy.hotpath.order.split_join cimport SplitCommands
from proxy.hotpath.upstream.upstream_pipeline cimport UpstreamPipeline
from proxy.wire.request cimport Request, RequestLimits

cdef int EDIT, EDIT_REPLY, JUDGE, PASS, PREFIX, REFUSE, COMPLETE
cdef Py_ssize_t UNSOUGHT
cdef int SEVERAL_SLOTS, REACHED
cdef int MAY_WRITE, COUNTED, MISSED, UNASKED, UNREAD
cdef int _SPECIAL, _STALLED, _REFUSED, _SPLIT, _FULL, _ANSWERED
cdef Py_ssize_t _LARGE_ANSWER, MOST_ANSWERED, _MOST_AT_ONCE
cdef KeySplitter _SPLITTER
cdef SpareRun _SPARE
cdef RepeatedReads _REPEATED


cdef class Runs:
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

    @cython.locals(config=HotPathConfig, request=Request, run=OpenRun, size=cython.Py_ssize_t, code=cython.int)
    cdef int _gather(self, bytes data, const unsigned char *p, Py_ssize_t position) except -1
    @cython.locals(sender=CommandSender, router=Router, upstream=UpstreamPipeline, reads=ClientReads)
    cdef int _begin(self, HotPathConfig config, OpenRun run, Py_ssize_t position) except -1
    @cython.locals(plan=Plan, request=Request, command_id=cython.int, simple="const unsigned char *",
                   remembers=CachedReads,
                   found=cython.Py_ssize_t, code=cython.int, reads=ClientReads, looked=cython.bint,
                   goes_on=cython.bint, decision=cython.int, passes=cython.bint, elsewhere=cython.bint)
    cdef int _take(self, HotPathConfig config, OpenRun run, bytes data, const unsigned char *p) except -1
    @cython.locals(remembers=CachedReads)
    cdef bint _is_remembered(self, HotPathConfig config, const unsigned char *p) except -1
    @cython.locals(command_id=cython.int, request=Request, reads=ClientReads, remembers=CachedReads, payload=bytes,
                   served=cython.int, source=UpstreamPipeline, absent=cython.bint, at=cython.longlong)
    cdef int _read_elsewhere(self, HotPathConfig config, OpenRun run, bytes data, const unsigned char *p,
                             bint passes) except -1
    cdef int _trace(self, HotPathConfig config, OpenRun run, const unsigned char *p) except -1
    @cython.locals(router=Router, node=cython.int, portions=Portions, portion=Portion, upstream=UpstreamPipeline)
    cdef int _turn_to_node(self, HotPathConfig config, OpenRun run, const unsigned char *p, Py_ssize_t found) except -1
    @cython.locals(sender=CommandSender, remembers=CachedReads, hit=CachedReply, place=cython.int)
    cdef int _answer(self, HotPathConfig config, OpenRun run, bytes data, const unsigned char *p, bytes payload) except -1
    cdef int _remember(self, bytes payload) except -1
    @cython.locals(request=Request, plan=Plan, router=Router, sender=CommandSender, commands=SplitCommands,
                   reads=ClientReads, remembers=CachedReads, code=cython.int, command_id=cython.int, kinds="const unsigned char *", parts=cython.Py_ssize_t,
                   decision=cython.int, name=bytes, wrote=cython.bint, node=cython.int, simple="const unsigned char *")
    cdef int _split(self, HotPathConfig config, Portions portions, const unsigned char *p) except -1
    @cython.locals(sender=CommandSender, request=Request, command_id=cython.int, payload=bytes, absent=cython.bint)
    cdef int _answer_split(self, HotPathConfig config, CachedReads remembers, const unsigned char *p) except -1
    @cython.locals(nodes=list, target=UpstreamPipeline)
    cdef UpstreamPipeline _connection(self, int node)


cdef bint _is_shared(UpstreamPipeline upstream) except -1
