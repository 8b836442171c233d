cimport cython

from proxy.commands.words cimport Keyword
from proxy.wire.request cimport Request

cdef int _READ, _WRITE
cdef int _NONE, _RANGE, _SPECS, _SORT, _MIGRATE, _GEORADIUS, _STREAMS, _BITFIELD, _UNTOLD
cdef int _UNKNOWN_KEYS, _WIDTH, _KEYWORD, _START, _KEYNUM, _LAST, _STEP, _LIMIT, _COUNT_AT, _FIRST_KEY, _ACCESS
cdef int _FIRST_CAPACITY, _KEPT_CAPACITY, _MOST_DIGITS
cdef Keyword _WORD_STORE, _WORD_STOREDIST, _WORD_LIMIT, _WORD_BY, _WORD_GET, _WORD_KEYS, _WORD_AUTH, _WORD_AUTH2
cdef Keyword _WORD_STREAMS, _WORD_GROUP, _WORD_BLOCK, _WORD_OVERFLOW


@cython.final
cdef class KeyFinder:
    cdef public int[::1] indexes
    cdef public int[::1] access
    cdef Py_ssize_t capacity
    cdef Py_ssize_t count
    cdef unsigned char[::1] kinds
    cdef int[::1] offsets
    cdef int[::1] rows
    cdef list keywords

    @cython.locals(kind=cython.int)
    cpdef Py_ssize_t find(self, int command_id, Request request) except -1
    @cython.locals(i=cython.Py_ssize_t, result=list)
    cpdef list listed(self)
    cpdef bint blocks(self, int command_id, Request request) except -1
    @cython.locals(first=cython.Py_ssize_t, last=cython.Py_ssize_t, step=cython.Py_ssize_t, access=cython.int)
    cdef Py_ssize_t _range(self, Py_ssize_t row, Py_ssize_t argc) except -1
    cdef int _add(self, Py_ssize_t index, int access) except -1
    @cython.locals(capacity=cython.Py_ssize_t, i=cython.Py_ssize_t)
    cdef _grow(self)
    cdef Py_ssize_t _find(self, int kind, int command_id, Request request, const unsigned char *data) except -1
    cdef _shrink(self)
    cdef Py_ssize_t _specs(self, Py_ssize_t row, Py_ssize_t end, Request request, const unsigned char *data) except -1
    cdef Py_ssize_t _unknown(self) noexcept
    @cython.locals(argc=cython.Py_ssize_t, first=cython.Py_ssize_t, last=cython.longlong, step=cython.Py_ssize_t,
                   keys=cython.longlong)
    cdef int _spec(self, Py_ssize_t row, Request request, const unsigned char *data) except -1
    @cython.locals(i=cython.Py_ssize_t, word=Keyword)
    cdef Py_ssize_t _behind_keyword(self, Py_ssize_t keyword, Py_ssize_t start, Request request,
                                    const unsigned char *data) except -1
    @cython.locals(i=cython.Py_ssize_t, end=cython.Py_ssize_t, value=cython.longlong)
    cdef long long _number(self, Request request, const unsigned char *data, Py_ssize_t index) noexcept
    cdef bint _is(self, Request request, const unsigned char *data, Py_ssize_t index, Keyword word) except -1
    @cython.locals(argc=cython.Py_ssize_t, store=cython.Py_ssize_t, i=cython.Py_ssize_t)
    cdef Py_ssize_t _sort(self, Request request, const unsigned char *data) except -1
    @cython.locals(argc=cython.Py_ssize_t, i=cython.Py_ssize_t)
    cdef Py_ssize_t _migrate(self, Request request, const unsigned char *data) except -1
    @cython.locals(argc=cython.Py_ssize_t, i=cython.Py_ssize_t)
    cdef Py_ssize_t _georadius(self, Request request, const unsigned char *data) except -1
    @cython.locals(first=cython.Py_ssize_t, end=cython.Py_ssize_t)
    cdef Py_ssize_t _streams(self, Request request, const unsigned char *data) except -1
    @cython.locals(argc=cython.Py_ssize_t, sign=cython.int, i=cython.Py_ssize_t)
    cdef Py_ssize_t _stream_options(self, Request request, const unsigned char *data) noexcept
    @cython.locals(argc=cython.Py_ssize_t, access=cython.int, i=cython.Py_ssize_t)
    cdef Py_ssize_t _bitfield(self, Request request, const unsigned char *data) except -1
