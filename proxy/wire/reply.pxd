cimport cython


cdef int _OUT_OF_STEP, _INCOMPLETE, _MOST_DIGITS, _SHORTEST_STRING
cdef Py_ssize_t _SHORT_WORD


@cython.final
cdef class ReplyScanner:
    cdef public long long elements
    cdef public long long bulk

    @cython.locals(i=cython.Py_ssize_t, j=cython.Py_ssize_t, end=cython.Py_ssize_t, elements=cython.longlong, bulk=cython.longlong,
                   number=cython.longlong, digit=cython.int, plain=cython.bint, count=cython.longlong, kind=cython.uchar)
    cpdef Py_ssize_t walk(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t size) except -2
    @cython.locals(i=cython.Py_ssize_t, digit=cython.int, length=cython.Py_ssize_t, end=cython.Py_ssize_t)
    cdef Py_ssize_t string_end(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t size) noexcept
    @cython.locals(n=cython.Py_ssize_t)
    cpdef Py_ssize_t whole(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t size) except -3
    @cython.locals(i=cython.Py_ssize_t)
    cpdef Py_ssize_t line_end(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t size) except -3
    @cython.locals(n=cython.Py_ssize_t)
    cpdef Py_ssize_t first_word_end(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t size) except -3
    cpdef bint may_pass(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(n=cython.Py_ssize_t, count=cython.longlong)
    cpdef Py_ssize_t begin_attribute(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t size) except -3
    @cython.locals(i=cython.Py_ssize_t, n=cython.Py_ssize_t, left=cython.longlong, count=cython.longlong, kind=cython.uchar)
    cpdef Py_ssize_t nothing_end(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t size) except -3
    @cython.locals(kind=cython.uchar, last=cython.uchar)
    cdef bint _is_nothing(self, const unsigned char *p, Py_ssize_t i, Py_ssize_t n) except -1
    @cython.locals(i=cython.Py_ssize_t, value=cython.longlong)
    cdef long long _length(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t end) noexcept
