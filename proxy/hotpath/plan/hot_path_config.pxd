cimport cython

from proxy.commands.keys cimport KeyFinder
from proxy.commands.lookup cimport Lookup
from proxy.hotpath.counting.counters cimport Counters
from proxy.hotpath.plan.leased_tokens cimport TokenSpender
from proxy.hotpath.plan.plan cimport Plan
from proxy.hotpath.cluster.router cimport Router
from proxy.hotpath.counting.sampler cimport Sampler
from proxy.hotpath.order.split_join cimport SplitCommands
from proxy.hotpath.upstream.write_gate cimport WriteGate
from proxy.wire.request cimport Request

cdef int JUDGE
cdef int _READS, _MAY_WRITE


@cython.final
cdef class HotPathConfig:
    cdef public Plan plan
    cdef public Lookup lookup
    cdef public KeyFinder keys
    cdef public Counters counters
    cdef public Request request
    cdef public bytes pooled
    cdef public bytes pinned
    cdef public Py_ssize_t window
    cdef public Sampler sampler
    cdef public Router router
    cdef public SplitCommands split_commands
    cdef public TokenSpender spender
    cdef public bytes beside
    cdef public bytes hides_absence
    cdef public bytes may_pause
    cdef public WriteGate gate

    @cython.locals(plan=Plan, request=Request, spender=TokenSpender, numbers=bytes)
    cpdef bint affords(self, int command_id, list token_sets) except -1
    @cython.locals(plan=Plan, request=Request)
    cpdef bint passes(self, int command_id, const unsigned char *data, list token_sets) except -1
    cpdef bint leaves_to_rules(self, int command_id, const unsigned char *data) except -1
    @cython.locals(plan=Plan, request=Request, spender=TokenSpender, decision=cython.int)
    cpdef int spend_and_decide(self, int command_id, const unsigned char *data, list token_sets) except -1
    cpdef count_edited(self, int command_id, const unsigned char *data)
    @cython.locals(request=Request, plan=Plan, keys=KeyFinder, found=cython.Py_ssize_t, i=cython.Py_ssize_t,
                   start=cython.Py_ssize_t, end=cython.Py_ssize_t, name=bytes)
    cpdef count_moved(self, int command_id, const unsigned char *data)
