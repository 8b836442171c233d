cimport cython

from proxy.commands.keys cimport KeyFinder
from proxy.commands.lookup cimport Lookup
from proxy.hotpath.command_sender cimport CommandSender
from proxy.hotpath.leased_tokens cimport TokenSpender
from proxy.hotpath.counters cimport Counters
from proxy.hotpath.hot_path_config cimport HotPathConfig
from proxy.hotpath.upstream_pipeline cimport UpstreamPipeline
from proxy.hotpath.plan cimport Plan
from proxy.hotpath.router cimport Router
from proxy.hotpath.sampler cimport Sampler
from proxy.hotpath.splice cimport Splice
from proxy.wire.request cimport RequestLimits, Request

cdef int _TAKEN, _WAIT, _ENDED
cdef int JUDGE, PASS, REFUSE, COMPLETE, EMPTY, INLINE, LARGE, NEED_MORE
cdef int MAY_WRITE
cdef int _READING, _WAITING, _FINISHED
cdef int _SPECIAL, _STALLED, _REFUSED, _ASSEMBLE


cdef class Assembly:
    cdef public bytearray buffer
    cdef public Request request
    cdef public bint whole


cdef class Intake:
    cdef public CommandSender sender
    cdef public object handler
    cdef public HotPathConfig config
    cdef public RequestLimits limits
    cdef public bytes simple
    cdef public bint direct
    cdef public bint running
    cdef public bint again
    cdef public bytes pending
    cdef public object unfinished
    cdef public int phase
    cdef public int command_id
    cdef public list token_sets
    cdef public long long sampled
    cdef public bint passes

    cpdef receive(self, data)
    cpdef resume(self)
    @cython.locals(sender=CommandSender)
    cdef bint _held(self)
    cpdef collect(self, bytes data)
    cdef _hold(self)
    @cython.locals(size=cython.Py_ssize_t)
    cdef _keep(self, bytes data, Py_ssize_t position, bint partial)
    @cython.locals(assembly=Assembly, code=cython.int)
    cdef _assemble(self)
    @cython.locals(position=cython.Py_ssize_t, end=cython.Py_ssize_t, outcome=cython.int, code=cython.int,
                   config=HotPathConfig, request=Request, sender=CommandSender)
    cdef _advance(self, bytes data)
    @cython.locals(sender=CommandSender, config=HotPathConfig, request=Request, plan=Plan, router=Router, upstream=UpstreamPipeline, target=UpstreamPipeline, limits=RequestLimits,
                   size=cython.Py_ssize_t, simple="const unsigned char *", direct=cython.bint, budget=cython.Py_ssize_t, start=cython.Py_ssize_t, count=cython.Py_ssize_t, wrote=cython.bint,
                   splice=Splice, spender=TokenSpender, numbers=bytes, code=cython.int, command_id=cython.int, decision=cython.int)
    cdef int _gather(self, bytes data, const unsigned char *p, Py_ssize_t position) except -1
    @cython.locals(splice=Splice, chunk=bytes)
    cdef int _send_run(self, UpstreamPipeline upstream, bytes data, const unsigned char *p, Py_ssize_t start, Py_ssize_t end,
                       Py_ssize_t count, bint wrote) except -1
    @cython.locals(node=cython.int, nodes=list, target=UpstreamPipeline)
    cdef UpstreamPipeline _target(self, Router router, int command_id, Request request, const unsigned char *p)
    @cython.locals(words=list, config=HotPathConfig, outcome=cython.int)
    cdef int _inline(self, handler, bytes data, Py_ssize_t position, Py_ssize_t end) except -1
