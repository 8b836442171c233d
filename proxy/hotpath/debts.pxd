cimport cython

cdef int _FORWARD, _HIDE, _LOCAL, _REPLACE, _EDIT, _PEEK, _MEMBERS, _CONFIRM, _NOTE, _UNWRAP, _MEASURE


cdef class Creditor:
    cdef public Py_ssize_t owed
    cdef public bint gone
    cdef public bint full
    cdef public bint attentive
    cdef public bint stalled
    cdef public bint ordered
    cdef public bint wrote
    cdef public Py_ssize_t low_water
    cdef public bytes run
    cdef public Py_ssize_t commands
    cdef public list out
    cdef public object write

    @cython.locals(out=list)
    cpdef flush(self)
    cpdef advance(self)


cdef class Entry:
    cdef public Creditor creditor
    cdef public Py_ssize_t due
    cdef public int fate
    cdef public object payload
    cdef public Entry next


cdef class Debts:
    cdef public Entry head
    cdef public Entry tail
    cdef public list dirty
    cdef public list calls

    cdef add(self, Entry entry)
    @cython.locals(tail=Entry, entry=Entry)
    cdef forward(self, Creditor creditor, Py_ssize_t due)
    cdef deliver(self, Creditor creditor, bytes chunk)
    @cython.locals(local=Entry)
    cdef settle(self, Entry entry, Py_ssize_t done, bint whole=*)
    cdef _paid(self, Creditor creditor, Py_ssize_t done)
    @cython.locals(dirty=list, calls=list, creditor=Creditor)
    cdef end_round(self)
    @cython.locals(entry=Entry, following=Entry, losers=list)
    cdef list forfeit(self)
