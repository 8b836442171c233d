cimport cython

from proxy.net.sockets.system_calls cimport clock, wait

cdef int _AT_ONCE, _ROUNDS
cdef long long _EVENTS


cdef class ReadySocket:
    cdef public int descriptor
    cdef public long long watched
    cpdef on_ready(self, long long events)


@cython.final
cdef class ReadySockets:
    cdef object _loop
    cdef object _epoll
    cdef int _descriptor
    cdef list _sockets
    cdef Py_ssize_t _count
    cdef long long[::1] _ready
    cdef list _due
    cdef list _spare
    cdef bint _awaited
    cdef public double turned
    cdef public double pause
    cdef public object on_pause
    cdef public dict looks
    cdef public bint more

    cpdef schedule(self, act)
    cpdef watch(self, ReadySocket ready, long long events)
    cpdef report(self, str message, error)
    cdef _add(self, ReadySocket ready, long long events)
    cdef _remove(self, ReadySocket ready)
    cpdef bint may_read(self, protocol) except -1
    cdef _begin(self)
    cdef _end(self)
    @cython.locals(awaited=cython.bint)
    cpdef _pass(self)
    cdef _look_for_pause(self)
    @cython.locals(count=cython.int)
    cdef _read_all(self)
    @cython.locals(index=cython.Py_ssize_t, event=cython.longlong, ready=ReadySocket)
    cdef _let_read(self, Py_ssize_t count)
    cpdef _run(self)
    @cython.locals(due=list)
    cdef _run_due(self)
