cimport cython


cdef long long _UNLIMITED


cdef class Allowance:
    cdef public long long left


cdef class Purse:
    cdef public Allowance commands
    cdef public Allowance volume
    cdef public Allowance places

    cpdef spend(self, long long commands, long long volume)


@cython.final
cdef class Spending:
    cdef readonly bytes numbers
    cdef list _purses
    cdef long long _commands
    cdef long long _volume
    cdef long long _commands_left
    cdef long long _volume_left

    cpdef forget(self)
    @cython.locals(purse=Purse, i=cython.Py_ssize_t, commands="long long", volume="long long")
    cpdef open(self, list purses, bytes numbers)
    cpdef bint affords(self, long long size) except -1
    cpdef take(self, long long size)
    @cython.locals(numbers=bytes, purses=list, purse=Purse, i=cython.Py_ssize_t)
    cpdef settle(self)
