cimport cython

from proxy.commands.keys cimport KeyFinder
from proxy.hotpath.plan.automaton cimport Automaton
from proxy.hotpath.cache.cache_use cimport CacheUse
from proxy.hotpath.cache.cached_reply cimport CachedReply
from proxy.hotpath.cache.cached_requests cimport part_of, prefixed
from proxy.hotpath.upstream.in_flight cimport ReplySink
from proxy.hotpath.cache.queued_keys cimport QueuedKeys
from proxy.hotpath.cache.reply_cache cimport ReplyCache
from proxy.wire.request cimport Request


cdef int _ANY_KEYS, _ANY_KEYS_UNTOLD, _CACHED, _CACHED_PARTS, _NO_KEYS, _READS, _READS_ANY_KEYS
cdef int MISSED, COUNTED, NOT_KEPT, UNREAD, MIXED, UNASKED
cdef Py_ssize_t _MOST_PARTS, _BEFORE_PART, _UNSOUGHT


cdef class CachedReads:
    cdef public ReplyCache cache
    cdef public object caches
    cdef public ReplySink client
    cdef public bytes roles
    cdef public bytes prefix
    cdef public list uses
    cdef public Automaton uncached
    cdef public bint reads_hot
    cdef public long long mask
    cdef public bint resp3
    cdef public int outcome
    cdef public list absent
    cdef public CachedReply hit
    cdef public QueuedKeys queued
    cdef object _clock
    cdef object _unread
    cdef double _now
    cdef bint _checked
    cdef bint _up_to_date

    cpdef begin_pass(self)
    @cython.locals(payload=bytes)
    cpdef bytes answer(self, bytes request)
    @cython.locals(reply=CachedReply, payload=bytes, use=CacheUse)
    cpdef bytes answer_in(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end)
    @cython.locals(use=CacheUse)
    cdef int count(self, CachedReply reply, long long times, Py_ssize_t size) except -1
    @cython.locals(role=cython.int, full=bytes)
    cpdef bytes answer_request(self, int command_id, Request request, const unsigned char *data, KeyFinder keys)
    @cython.locals(names=list, found=cython.Py_ssize_t, i=cython.Py_ssize_t, index=cython.Py_ssize_t)
    cdef bytes _answer_keys(self, int command_id, Request request, const unsigned char *data, KeyFinder keys)
    @cython.locals(reply=CachedReply, payload=bytes, payloads=list, replies=list, since=cython.double, name=bytes)
    cpdef bytes answer_parts(self, list names)
    @cython.locals(reply=CachedReply, use=CacheUse, served=cython.longlong, audited=cython.longlong,
                   lacking=cython.Py_ssize_t)
    cdef bint _count_parts(self, list replies, Py_ssize_t size, double since) except -1
    cdef bint _is_up_to_date(self) except -1
    cdef bint _is_about_name(self, bytes name) except -1
    cdef bint _is_about(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(role=cython.int, i=cython.Py_ssize_t, index=cython.Py_ssize_t, name=bytes)
    cpdef bint may_concern(self, int command_id, Request request, const unsigned char *data, KeyFinder keys,
                           Py_ssize_t found) except -1
    cpdef bint waits_for_untold(self, int command_id) except -1
    @cython.locals(index=cython.Py_ssize_t, found=cython.Py_ssize_t, i=cython.Py_ssize_t)
    cpdef bint may_serve(self, int command_id, Request request, const unsigned char *data, KeyFinder keys) except -1
    @cython.locals(found=cython.Py_ssize_t, i=cython.Py_ssize_t)
    cpdef bint may_serve_any(self, int command_id, Request request, const unsigned char *data, KeyFinder keys) except -1
    cpdef bint may_serve_name(self, bytes name) except -1
    @cython.locals(role=cython.int, found=cython.Py_ssize_t, i=cython.Py_ssize_t,
                   index=cython.Py_ssize_t, start=cython.Py_ssize_t, end=cython.Py_ssize_t, reads=cython.bint)
    cpdef hold(self, int command_id, Request request, const unsigned char *data, KeyFinder keys, ReplySink writer,
               long long at)
    cpdef hold_name(self, bytes name, ReplySink writer, long long at, bint reads)
    cdef int _hold(self, bytes name, ReplySink writer, long long at) except -1
    @cython.locals(cache=ReplyCache)
    cpdef hold_back(self, ReplySink writer, long long at, bint forget=*)
    @cython.locals(cache=ReplyCache)
    cpdef look(self, ReplySink reader, long long at)
