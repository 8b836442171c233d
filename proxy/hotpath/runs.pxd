cimport cython

from proxy.hotpath.command_sender cimport CommandSender
from proxy.hotpath.hot_path_config cimport HotPathConfig
from proxy.hotpath.leased_tokens cimport TokenSpender
from proxy.hotpath.plan cimport Plan
from proxy.hotpath.router cimport Router
from proxy.hotpath.splice cimport Splice
from proxy.hotpath.upstream_pipeline cimport UpstreamPipeline
from proxy.wire.request cimport Request, RequestLimits

cdef int JUDGE, PASS, REFUSE, COMPLETE
cdef int MAY_WRITE
cdef int _SPECIAL, _STALLED, _REFUSED


cdef class Runs:
    cdef public CommandSender sender
    cdef public HotPathConfig config
    cdef public RequestLimits limits
    cdef public bytes simple
    cdef public bint direct
    cdef public bint again
    cdef public int command_id
    cdef public list token_sets
    cdef public long long sampled
    cdef public bint passes

    @cython.locals(sender=CommandSender, config=HotPathConfig, request=Request, plan=Plan, router=Router, upstream=UpstreamPipeline, target=UpstreamPipeline, limits=RequestLimits,
                   size=cython.Py_ssize_t, simple="const unsigned char *", direct=cython.bint, budget=cython.Py_ssize_t, start=cython.Py_ssize_t, count=cython.Py_ssize_t, wrote=cython.bint,
                   splice=Splice, spender=TokenSpender, numbers=bytes, code=cython.int, command_id=cython.int, decision=cython.int)
    cdef int _gather(self, bytes data, const unsigned char *p, Py_ssize_t position) except -1
    @cython.locals(splice=Splice, chunk=bytes)
    cdef int _send_run(self, UpstreamPipeline upstream, bytes data, const unsigned char *p, Py_ssize_t start, Py_ssize_t end,
                       Py_ssize_t count, bint wrote) except -1
    @cython.locals(node=cython.int, nodes=list, target=UpstreamPipeline)
    cdef UpstreamPipeline _target(self, Router router, int command_id, Request request, const unsigned char *p)
