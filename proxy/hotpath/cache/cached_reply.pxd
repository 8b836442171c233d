cdef class ReplySource:
    cdef public object cache
    cdef public double until


cdef class CachedReply:
    cdef public ReplySource source
    cdef public long long mark
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
    cdef public Py_ssize_t prune_at
    cdef public long long writes
    cdef public Py_ssize_t fills
    cdef public long long hits
    cdef public bint touched
    cdef public int slot


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
