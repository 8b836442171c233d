cimport cython

from proxy.hotpath.cache.cached_reads cimport CachedReads
from proxy.hotpath.cache.cached_reply cimport CachedReply
from proxy.hotpath.counting.call_counts cimport CallCounts
from proxy.hotpath.intake.command_sender cimport CommandSender
from proxy.hotpath.intake.open_run cimport OpenRun
from proxy.hotpath.plan.hot_path_config cimport HotPathConfig
from proxy.hotpath.plan.plan cimport Plan
from proxy.wire.request cimport Request

cdef Py_ssize_t _MOST_ANSWERED
cdef Py_ssize_t _WORD
cdef bint _INTERPRETED


@cython.final
cdef class RepeatedReads:
    @cython.locals(plan=Plan, request=Request, size=cython.Py_ssize_t, most=cython.Py_ssize_t,
                   times=cython.Py_ssize_t, end=cython.Py_ssize_t)
    cdef Py_ssize_t answer(self, HotPathConfig config, OpenRun run, CommandSender sender, CallCounts calls,
                           CachedReads reads, CachedReply hit, int command_id, bytes data,
                           const unsigned char *p, bytes payload) except -1


@cython.locals(left=cython.Py_ssize_t)
cdef bint _is_same(const unsigned char *p, Py_ssize_t start, Py_ssize_t at, Py_ssize_t size) noexcept
@cython.locals(value=cython.ulonglong)
cdef unsigned long long _word(const unsigned char *p, Py_ssize_t i) noexcept
