cimport cython

from proxy.net.sockets.ready_sockets cimport ReadySocket, ReadySockets
from proxy.net.sockets.system_calls cimport receive, send

cdef long long _IN, _OUT
cdef Py_ssize_t _MUCH, _JOINED, _HIGH_WATER


cdef class SocketTransport(ReadySocket):
    cdef ReadySockets _sockets
    cdef object _socket
    cdef object _peer
    cdef object _protocol
    cdef object _receive
    cdef object _unsent
    cdef Py_ssize_t _offset
    cdef Py_ssize_t _size
    cdef Py_ssize_t _high
    cdef Py_ssize_t _low
    cdef bint _reading
    cdef bint _ended
    cdef bint _full
    cdef bint _closing
    cdef readonly bint lost

    cpdef on_ready(self, long long events)
    cdef _read(self)
    cdef _end_of_stream(self)
    @cython.locals(sent=cython.Py_ssize_t)
    cpdef write(self, bytes data)
    cdef Py_ssize_t _try(self, bytes data, Py_ssize_t start) except -2
    @cython.locals(sent=cython.Py_ssize_t, piece=bytes)
    cdef _send_more(self)
    @cython.locals(pieces=list, size=cython.Py_ssize_t, piece=bytes)
    cdef _join(self, unsent)
    cdef _after_sending(self)
    cdef _tell_writing(self)
    cpdef Py_ssize_t get_write_buffer_size(self) except -1
    cpdef bint is_closing(self) except -1
    cpdef close(self)
    cpdef abort(self)
    cdef _fail(self, str message, error)
    cdef _lose(self, error)
    @cython.locals(events=cython.longlong)
    cdef _watch(self)
