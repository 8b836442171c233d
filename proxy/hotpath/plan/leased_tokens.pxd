cimport cython


cdef long long _UNLIMITED


cdef class LeasedTokens:
    cdef public long long left


cdef class TokenSet:
    cdef public LeasedTokens commands
    cdef public LeasedTokens volume
    cdef public LeasedTokens places

    cpdef spend(self, long long commands, long long volume)


@cython.final
cdef class TokenSpender:
    cdef readonly bytes numbers
    cdef list _token_sets
    cdef long long _commands
    cdef long long _volume
    cdef long long _commands_left
    cdef long long _volume_left

    cpdef forget(self)
    @cython.locals(token_set=TokenSet, i=cython.Py_ssize_t, commands="long long", volume="long long")
    cpdef open(self, list token_sets, bytes numbers)
    cpdef bint affords(self, long long size) except -1
    cpdef take(self, long long size)
    @cython.locals(numbers=bytes, token_sets=list, token_set=TokenSet, i=cython.Py_ssize_t)
    cpdef settle(self)
