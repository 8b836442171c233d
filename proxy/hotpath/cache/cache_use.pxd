cdef class CacheUse:
    cdef public long long bit
    cdef public long long hits
    cdef public long long hit_bytes
    cdef public double ages
    cdef public long long audited_hits
    cdef public long long audited_bytes
