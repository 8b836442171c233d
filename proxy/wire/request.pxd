cimport cython

cdef int _NEED_MORE, _COMPLETE, _INLINE, _EMPTY, _LARGE, _MALFORMED
cdef Py_ssize_t _LINE_LIMIT, _MOST_DIGITS, _KEPT_CAPACITY


@cython.final
cdef class RequestLimits:
    cdef public long long arguments
    cdef public long long bulk
    cdef public long long large
    cdef public bint authenticated
    cdef public bint mixed_quotes


@cython.final
cdef class Request:
    cdef public object data
    cdef public Py_ssize_t argc
    cdef public long long[::1] starts
    cdef public long long[::1] ends
    cdef public Py_ssize_t capacity
    cdef public Py_ssize_t start
    cdef public Py_ssize_t header_end
    cdef public Py_ssize_t end
    cdef public Py_ssize_t position
    cdef public long long expected
    cdef public long long bulk
    cdef public int error
    cdef public int error_byte

    cpdef bytes argument(self, Py_ssize_t index)
    @cython.locals(i=cython.Py_ssize_t, result=list)
    cpdef list arguments(self)
    @cython.locals(end=cython.Py_ssize_t)
    cpdef load(self, argv)
    cpdef add(self, Py_ssize_t start, Py_ssize_t end)
    @cython.locals(i=cython.Py_ssize_t)
    cdef _grow(self, Py_ssize_t capacity)
    cpdef int scan(self, data, Py_ssize_t start, RequestLimits limits) except -1
    cdef int scan_in(self, data, const unsigned char *p, Py_ssize_t size, Py_ssize_t start, RequestLimits limits) except -1
    cpdef int resume(self, data, RequestLimits limits) except -1
    @cython.locals(code=cython.int)
    cdef int _walk(self, data, const unsigned char *p, Py_ssize_t size, RequestLimits limits) except -1
    @cython.locals(i=cython.Py_ssize_t, first=cython.Py_ssize_t, value=cython.longlong, negative=cython.bint)
    cdef int _walk_header(self, const unsigned char *p, Py_ssize_t size, RequestLimits limits) except -1
    @cython.locals(i=cython.Py_ssize_t, j=cython.Py_ssize_t, first=cython.Py_ssize_t, argc=cython.Py_ssize_t,
                   bulk=cython.longlong)
    cdef int _walk_arguments(self, const unsigned char *p, Py_ssize_t size, RequestLimits limits) except -1
    @cython.locals(i=cython.Py_ssize_t)
    cdef int _walk_inline(self, const unsigned char *p, Py_ssize_t size) except -1
    @cython.locals(i=cython.Py_ssize_t)
    cdef int _bad_line(self, const unsigned char *p, Py_ssize_t size, int code, int too_long) except -1
    cdef int _malformed(self, int code, int byte) except -1
