cdef Py_ssize_t _MOST_QUEUED


cdef class QueuedKeys:
    cdef public set names
    cdef public bint any_key
    cdef public bint looks
    cdef public bint untold

    cpdef add(self, bytes name)
    cpdef add_any(self, bint untold)
