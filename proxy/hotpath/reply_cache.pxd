cimport cython

from proxy.hotpath.automaton cimport Automaton
from proxy.hotpath.in_flight cimport ReplySink


cdef class CachedReply:
    cdef public ReplyCache cache
    cdef public ReplyMemory memory
    cdef public CachedKey key
    cdef public bytes request
    cdef public long long served
    cdef public long long audited
    cdef public bytes resp3
    cdef public bytes resp2
    cdef public double since
    cdef public double ends
    cdef public Py_ssize_t size
    cdef public CachedReply newer
    cdef public CachedReply older


cdef class CachedKey:
    cdef public bytes name
    cdef public dict replies
    cdef public dict holds
    cdef public long long writes
    cdef public Py_ssize_t fills
    cdef public long long hits
    cdef public bint touched


cdef class ReplyMemory:
    cdef public Py_ssize_t limit
    cdef public Py_ssize_t size
    cdef public Py_ssize_t entries
    cdef public CachedReply newest
    cdef public CachedReply oldest

    cpdef add(self, CachedReply reply)
    cpdef remove(self, CachedReply reply)
    cpdef use(self, CachedReply reply)
    cdef _link(self, CachedReply reply)
    cdef _unlink(self, CachedReply reply)


cdef class ReplyCache:
    cdef public bint idle
    cdef public set hot
    cdef public Automaton uncached
    cdef public double until
    cdef public bint held_back
    cdef public long long held_back_by
    cdef public long long evicted
    cdef dict _replies
    cdef dict _keys
    cdef list _touched
    cdef dict _waiting
    cdef bint _forget
    cdef Py_ssize_t _sweep_at

    @cython.locals(reply=CachedReply, key=CachedKey)
    cpdef CachedReply find(self, bytes request, double now)
    cpdef bint concerns(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(key=CachedKey)
    cpdef CachedKey begin_fill(self, bytes name)
    cpdef end_fill(self, CachedKey key)
    @cython.locals(reply=CachedReply, old=CachedReply)
    cpdef keep(self, ReplyMemory memory, CachedKey key, bytes request, bytes resp3, bytes resp2, double since,
               double ends, long long served, long long audited)
    @cython.locals(key=CachedKey)
    cpdef drop(self, bytes name)
    @cython.locals(key=CachedKey)
    cdef _expire(self, bytes name)
    cpdef evict(self, CachedReply reply)
    @cython.locals(key=CachedKey, reply=CachedReply)
    cpdef hold(self, bytes name, ReplySink writer, long long position)
    cpdef hold_back(self, ReplySink writer, long long position, bint forget=*)
    @cython.locals(key=CachedKey)
    cdef CachedKey _key(self, bytes name)
    cdef bint _held(self, CachedKey key) except -1
    @cython.locals(reply=CachedReply)
    cdef _drop(self, CachedKey key)
    cdef _remove(self, CachedReply reply)
    cdef _forget_unused(self, CachedKey key)
