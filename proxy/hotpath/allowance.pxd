cdef class Allowance:
    cdef public long long left


cdef class Purse:
    cdef public Allowance commands
    cdef public Allowance volume
    cdef public Allowance places

    cpdef bint affords(self, long long size) except -1
    cpdef spend(self, long long size)
