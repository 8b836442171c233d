cimport cython

from proxy.hotpath.upstream.in_flight cimport InFlightEntry, ReplySink
from proxy.hotpath.upstream.reply_actions cimport ReplyActions

cdef int LATE
cdef int FORWARD, CONFIRM
cdef int MESSAGE, CONFIRMATION, REPLY
cdef int _MINUS, _STAR, _PUSH, _ATTRIBUTE


cdef class UpstreamPipeline(ReplyActions):
    cdef public bytes rest
    cdef Py_ssize_t late_made
    cdef public bint usable
    cdef public bint relay
    cdef public bint read_only_told
    cdef public object subscriptions
    cdef public object push_edit
    cdef public long long strays
    cdef public long long node_bit
    cdef public int number

    @cython.locals(position=cython.Py_ssize_t, buffer=bytes)
    cpdef receive(self, data)
    @cython.locals(i=cython.Py_ssize_t, n=cython.Py_ssize_t)
    cdef Py_ssize_t _distribute(self, bytes data, const unsigned char *p, Py_ssize_t size) except -3
    @cython.locals(n=cython.Py_ssize_t, head=InFlightEntry, line=bytes)
    cdef Py_ssize_t _relayed(self, bytes data, const unsigned char *p, Py_ssize_t i, Py_ssize_t size) except -3
    @cython.locals(said=cython.int, n=cython.Py_ssize_t)
    cdef Py_ssize_t _push(self, bytes data, const unsigned char *p, Py_ssize_t i, Py_ssize_t size) except -3
    @cython.locals(n=cython.Py_ssize_t)
    cdef Py_ssize_t _edited_message(self, object edit, bytes data, const unsigned char *p, Py_ssize_t i, Py_ssize_t size) except -3
    @cython.locals(n=cython.Py_ssize_t)
    cdef Py_ssize_t _attribute(self, const unsigned char *p, Py_ssize_t i, Py_ssize_t size) except -3
    @cython.locals(n=cython.Py_ssize_t, head=InFlightEntry, frame=bytes)
    cdef Py_ssize_t _confirm(self, bytes data, const unsigned char *p, Py_ssize_t i, Py_ssize_t size) except -3
    @cython.locals(n=cython.Py_ssize_t)
    cdef Py_ssize_t _uninvited(self, bytes data, const unsigned char *p, Py_ssize_t i, Py_ssize_t size) except -3
    cdef _end(self)
    @cython.locals(lost=list, unanswered=list)
    cpdef list abandon(self, lose=*)
    cpdef release(self)
    cpdef take_late(self, bytes piece)
    @cython.locals(sink=ReplySink)
    cpdef end_late(self)
