cimport cython

from proxy.hotpath.intake.command_sender cimport CommandSender
from proxy.hotpath.counting.call_counts cimport CallCounts
from proxy.hotpath.plan.hot_path_config cimport HotPathConfig
from proxy.hotpath.intake.runs cimport Runs
from proxy.wire.request cimport Request

cdef int _TAKEN, _WAIT, _ENDED
cdef int COMPLETE, EMPTY, INLINE, LARGE, NEED_MORE
cdef int _READING, _WAITING, _FINISHED
cdef int SPECIAL, STALLED, REFUSED, FULL, _ASSEMBLE
cdef Py_ssize_t _ARGUMENT


cdef class Assembly:
    cdef public bytearray buffer
    cdef public Request request
    cdef public bint whole


cdef class Intake(Runs):
    cdef public bint running
    cdef public bytes pending
    cdef public object unfinished
    cdef public int phase

    cpdef receive(self, data)
    cpdef resume(self)
    cdef bint _client_has_left(self) except -1
    @cython.locals(sender=CommandSender)
    cdef bint _held(self)
    cpdef collect(self, bytes data)
    cdef _hold(self)
    @cython.locals(size=cython.Py_ssize_t)
    cdef _keep(self, bytes data, Py_ssize_t position, bint partial)
    @cython.locals(assembly=Assembly, code=cython.int)
    cdef _assemble(self)
    @cython.locals(position=cython.Py_ssize_t, end=cython.Py_ssize_t, outcome=cython.int, code=cython.int,
                   config=HotPathConfig, calls=CallCounts, request=Request, sender=CommandSender)
    cdef _advance(self, bytes data)
    @cython.locals(words=list, calls=CallCounts, outcome=cython.int)
    cdef int _inline(self, handler, bytes data, Py_ssize_t position, Py_ssize_t end) except -1
