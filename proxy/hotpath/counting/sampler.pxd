cimport cython


@cython.final
cdef class Sampler:
    cdef public long long traces
    cdef public long long interval
    cdef public long long weight
    cdef public long long left
    cdef public bint all
    cdef unsigned long long _random
    cdef long long _free
    cdef long long _taken
    cdef long long _gap
    cdef long long _passed

    cpdef bint due(self) except -1
    @cython.locals(value=cython.ulonglong)
    cdef _draw(self)
    @cython.locals(commands=cython.longlong, wanted=cython.longlong)
    cpdef another_second(self)
