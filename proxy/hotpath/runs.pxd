cimport cython

from proxy.hotpath.cached_reads cimport CachedReads
from proxy.hotpath.client_reads cimport ClientReads
from proxy.hotpath.command_sender cimport CommandSender
from proxy.hotpath.hot_path_config cimport HotPathConfig
from proxy.hotpath.key_splitter cimport KeySplitter
from proxy.hotpath.leased_tokens cimport TokenSpender
from proxy.hotpath.plan cimport Plan
from proxy.hotpath.portions cimport Portion, Portions
from proxy.hotpath.router cimport Router
from proxy.hotpath.splice cimport Splice
from proxy.hotpath.split_join cimport SplitCommands
from proxy.hotpath.upstream_pipeline cimport UpstreamPipeline
from proxy.wire.request cimport Request, RequestLimits

cdef int EDIT, JUDGE, PASS, REFUSE, COMPLETE
cdef int SEVERAL_SLOTS, REACHED
cdef int MAY_WRITE, _CACHED, _CACHED_PARTS, COUNTED, MISSED, UNREAD
cdef int _SPECIAL, _STALLED, _REFUSED, _SPLIT, _FULL
cdef Py_ssize_t _LARGE_ANSWER, _MOST_GATHERED
cdef KeySplitter _SPLITTER


cdef class Runs:
    cdef public CommandSender sender
    cdef public object handler
    cdef public HotPathConfig config
    cdef public RequestLimits limits
    cdef public bytes simple
    cdef public bint direct
    cdef public bint again
    cdef public int command_id
    cdef public list token_sets
    cdef public long long sampled
    cdef public bint passes
    cdef public bint missed
    cdef public CachedReads cached_reads

    @cython.locals(sender=CommandSender, config=HotPathConfig, request=Request, plan=Plan, router=Router, upstream=UpstreamPipeline, target=cython.int, target_upstream=UpstreamPipeline, target_portion=Portion, node=cython.int, portion=Portion, portions=Portions, limits=RequestLimits,
                   reads=ClientReads, source=UpstreamPipeline, home=UpstreamPipeline, number=cython.int, unsent=cython.Py_ssize_t,
                   size=cython.Py_ssize_t, simple="const unsigned char *", direct=cython.bint, budget=cython.Py_ssize_t, start=cython.Py_ssize_t, count=cython.Py_ssize_t, wrote=cython.bint,
                   splice=Splice, spender=TokenSpender, numbers=bytes, cached_reads=CachedReads, payload=bytes, remembers=cython.bint, served=cython.int, role=cython.int, absent=cython.bint, gathered=cython.Py_ssize_t, code=cython.int, command_id=cython.int, decision=cython.int)
    cdef int _gather(self, bytes data, const unsigned char *p, Py_ssize_t position) except -1
    cdef bint _is_shared(self, UpstreamPipeline upstream) except -1
    @cython.locals(chunk=bytes)
    cdef int _send_run(self, UpstreamPipeline upstream, Splice splice, bytes data, const unsigned char *p, Py_ssize_t start,
                       Py_ssize_t end, Py_ssize_t count, bint wrote) except -1
    @cython.locals(config=HotPathConfig, request=Request, plan=Plan, router=Router, sender=CommandSender,
                   commands=SplitCommands, reads=ClientReads, command_id=cython.int, kinds="const unsigned char *", parts=cython.Py_ssize_t, decision=cython.int,
                   name=bytes, wrote=cython.bint, node=cython.int, simple="const unsigned char *")
    cdef int _split(self, const unsigned char *p) except -1
    @cython.locals(nodes=list, target=UpstreamPipeline)
    cdef UpstreamPipeline _connection(self, int node)
