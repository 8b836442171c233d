cimport cython

from proxy.hotpath.cache.cached_reads cimport CachedReads
from proxy.hotpath.cache.cached_reply cimport CachedReply
from proxy.hotpath.replicas.client_reads cimport ClientReads
from proxy.hotpath.intake.command_sender cimport CommandSender
from proxy.hotpath.plan.hot_path_config cimport HotPathConfig
from proxy.hotpath.intake.open_run cimport OpenRun, SpareRun
from proxy.hotpath.intake.repeated_reads cimport RepeatedReads
from proxy.hotpath.intake.split_runs cimport SplitRuns
from proxy.hotpath.plan.plan cimport Plan
from proxy.hotpath.cluster.portions cimport Portion, Portions
from proxy.hotpath.cluster.router cimport Router
from proxy.hotpath.upstream.upstream_pipeline cimport UpstreamPipeline
from proxy.wire.request cimport Request

cdef int EDIT, EDIT_REPLY, JUDGE, PASS, PREFIX, REFUSE, COMPLETE
cdef Py_ssize_t UNSOUGHT
cdef int SEVERAL_SLOTS
cdef int MAY_WRITE, COUNTED, MISSED, UNASKED, UNREAD
cdef int SPECIAL, STALLED, REFUSED, SPLIT, FULL, ANSWERED
cdef Py_ssize_t LARGE_ANSWER, MOST_ANSWERED
cdef SpareRun _SPARE
cdef RepeatedReads _REPEATED


cdef class Runs(SplitRuns):
    @cython.locals(config=HotPathConfig, request=Request, run=OpenRun, size=cython.Py_ssize_t, code=cython.int)
    cdef int _gather(self, bytes data, const unsigned char *p, Py_ssize_t position) except -1
    @cython.locals(sender=CommandSender, router=Router, upstream=UpstreamPipeline, reads=ClientReads)
    cdef int _begin(self, HotPathConfig config, OpenRun run, Py_ssize_t position) except -1
    @cython.locals(plan=Plan, request=Request, command_id=cython.int, simple="const unsigned char *",
                   remembers=CachedReads,
                   found=cython.Py_ssize_t, code=cython.int, reads=ClientReads, looked=cython.bint,
                   goes_on=cython.bint, decision=cython.int)
    cdef int _take(self, HotPathConfig config, OpenRun run, bytes data, const unsigned char *p) except -1
    @cython.locals(plan=Plan, request=Request, command_id=cython.int, remembers=CachedReads, reads=ClientReads,
                   passes=cython.bint, elsewhere=cython.bint, code=cython.int)
    cdef int _go_on(self, HotPathConfig config, OpenRun run, bytes data, const unsigned char *p, int decision,
                    bint goes_on) except -1
    @cython.locals(simple="const unsigned char *")
    cdef int _join(self, OpenRun run, Py_ssize_t end) except -1
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


cdef bint _is_shared(UpstreamPipeline upstream) except -1
