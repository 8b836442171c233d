cimport cython

from proxy.hotpath.plan.automaton cimport Automaton
from proxy.hotpath.cache.cached_reply cimport CachedKey, CachedReply, ReplyMemory, ReplySource
from proxy.hotpath.upstream.in_flight cimport ReplySink
from proxy.hotpath.cache.slot_marks cimport SlotMarks

cdef bint _INTERPRETED
cdef Py_ssize_t _HINTS
cdef long long CLOSED


cdef class ReplyCache:
    cdef public SlotMarks slots
    cdef public bint idle
    cdef public set hot
    cdef public Automaton uncached
    cdef public bint held_back
    cdef public long long held_back_by
    cdef public dict looking
    cdef public long long evicted
    cdef dict _replies
    cdef CachedReply _last
    cdef unsigned char[::1] _hints
    cdef dict _keys
    cdef list _touched
    cdef dict _waiting
    cdef bint _forget
    cdef Py_ssize_t _sweep_at

    cpdef CachedReply find(self, bytes request, double now)
    @cython.locals(reply=CachedReply, key=CachedKey)
    cpdef CachedReply find_in(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end, double now)
    cpdef bint has(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end) except -1
    cpdef bint may_concern(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end) except -1
    cpdef bint concerns(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(key=CachedKey)
    cpdef CachedKey begin_fill(self, bytes name)
    cpdef end_fill(self, CachedKey key)
    @cython.locals(reply=CachedReply, old=CachedReply)
    cpdef long long mark_of(self, CachedKey key) except -1
    cpdef keep(self, ReplySource source, long long mark, ReplyMemory memory, CachedKey key, bytes request, bytes resp3,
               bytes resp2, double since, double ends, long long served, long long audited)
    @cython.locals(key=CachedKey)
    cpdef drop(self, bytes name)
    @cython.locals(reply=CachedReply)
    cpdef clear_of(self, ReplySource source)
    @cython.locals(key=CachedKey)
    cdef _expire(self, bytes name)
    cpdef evict(self, CachedReply reply)
    @cython.locals(key=CachedKey, reply=CachedReply)
    cpdef hold(self, bytes name, ReplySink writer, long long position)
    cpdef hold_back(self, ReplySink writer, long long position, bint forget=*)
    cpdef look(self, ReplySink reader, long long position)
    @cython.locals(key=CachedKey)
    cdef CachedKey _key(self, bytes name)
    cdef bint _held(self, CachedKey key) except -1
    @cython.locals(reply=CachedReply)
    cdef _drop(self, CachedKey key)
    cdef _remove(self, CachedReply reply)
    cdef _take_out(self, CachedReply reply)
    cdef _forget_unused(self, CachedKey key)


@cython.locals(last=cython.Py_ssize_t, before=cython.Py_ssize_t)
cdef Py_ssize_t _hint(const unsigned char *data, Py_ssize_t start, Py_ssize_t end) except -1
@cython.locals(left=cython.Py_ssize_t, p="const unsigned char *")
cdef bint _is_between(bytes request, const unsigned char *data, Py_ssize_t start, Py_ssize_t end) except -1
