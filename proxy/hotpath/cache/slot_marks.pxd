cdef int _CLOSED


cdef class SlotMarks:
    cdef long long[::1] _marks
    cdef long long _last

    cpdef long long of(self, int slot) except -1
    cpdef open(self, int slot)
    cpdef close(self, int slot)
