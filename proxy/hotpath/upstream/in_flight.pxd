cimport cython

cdef int _FORWARD, _HIDE, _LOCAL, _REPLACE, _EDIT, _PEEK, _MEMBERS, _CONFIRM, _NOTE, _UNWRAP, _TRACE, _JOIN, _EDIT_ERROR, _EDIT_SOME


cdef class ReplySink:
    cdef public Py_ssize_t pending_replies
    cdef public long long requested
    cdef public bint gone
    cdef public bint full
    cdef public bint notify_when_idle
    cdef public bint stalled
    cdef public bint ordered
    cdef public bint wrote
    cdef public Py_ssize_t low_water
    cdef public bytes run
    cdef public Py_ssize_t commands
    cdef public list out
    cdef public object write

    cpdef reset(self)
    @cython.locals(out=list)
    cdef bint put(self, bytes chunk) except -1
    @cython.locals(out=list)
    cpdef flush(self)
    cpdef advance(self)
    cpdef bint finished(self, long long position) except -1
    @cython.locals(place=cython.Py_ssize_t)
    cpdef large_reply_begins(self, Py_ssize_t due, Py_ssize_t done, Py_ssize_t size, Py_ssize_t stored)


@cython.locals(whole=bytes)
cpdef bytes taken(list pieces)


cdef class ReplyPart:
    cpdef take(self, bytes piece, Py_ssize_t frames, bint whole)


@cython.final
cdef class InFlightEntry:
    cdef public ReplySink sink
    cdef public Py_ssize_t due
    cdef public int action
    cdef public object payload
    cdef public object sent
    cdef public Py_ssize_t size
    cdef public object on_lost
    cdef public InFlightEntry next


cdef class InFlightQueue:
    cdef public InFlightEntry head
    cdef public InFlightEntry tail
    cdef public InFlightEntry array_end
    cdef public Py_ssize_t kept
    cdef public list dirty
    cdef public list calls

    cdef add(self, InFlightEntry entry)
    @cython.locals(tail=InFlightEntry)
    cdef forward(self, ReplySink sink, Py_ssize_t due)
    @cython.locals(entry=InFlightEntry)
    cdef await_frames(self, ReplySink sink, Py_ssize_t due, int action, payload, bytes sent, Py_ssize_t size)
    cdef deliver(self, ReplySink sink, bytes chunk)
    @cython.locals(local=InFlightEntry)
    cdef complete(self, InFlightEntry entry, Py_ssize_t done, bint whole=*)
    cdef _answered(self, ReplySink sink, Py_ssize_t done)
    @cython.locals(calls=list, count=cython.Py_ssize_t)
    cdef _call(self, ReplySink sink)
    @cython.locals(entries=list, each=InFlightEntry, behind=InFlightEntry, position=cython.Py_ssize_t,
                   index=cython.Py_ssize_t, action=cython.int)
    cdef Py_ssize_t expand(self, InFlightEntry entry, actions, Py_ssize_t count) except -2
    @cython.locals(dirty=list, calls=list, sink=ReplySink)
    cdef end_round(self)
    @cython.locals(entry=InFlightEntry, next_entry=InFlightEntry, unanswered=set, lost=list)
    cdef list clear(self)
    @cython.locals(entry=InFlightEntry)
    cdef settle(self, list lost)
