cimport cython


cdef extern from *:
    # As wide as the product of two 64-bit words; the name that Cython knows it by only has to be an integer's.
    ctypedef unsigned long long wide "unsigned __int128"

cdef unsigned long long _PRIME
cdef unsigned long long _MIXER
cdef Py_ssize_t _WAYS, _WAY_BITS, _LAST_WAY, _COUNTS, _WRITES, _ERRORS, _MOVED, _SET
cdef long long _NO_WAY, _NAMED, _USE, _NAME_BITS
cdef Py_ssize_t _LONGEST_NAME
cdef bint _INTERPRETED


@cython.locals(value=cython.ulonglong, word=cython.ulonglong, product=wide, i=cython.Py_ssize_t)
cpdef unsigned long long fingerprint(const unsigned char *p, Py_ssize_t start, Py_ssize_t end,
                                     unsigned long long point) noexcept


@cython.final
cdef class Counters:
    cdef readonly long long total
    cdef unsigned long long _last_set
    cdef Py_ssize_t _last
    cdef bint _moves
    cdef unsigned long long _point
    cdef unsigned long long[::1] _table
    cdef list _names

    @cython.locals(mark=cython.ulonglong, spread=cython.ulonglong, chosen=cython.Py_ssize_t, marks=cython.Py_ssize_t,
                   counts=cython.Py_ssize_t, names=cython.Py_ssize_t, way=cython.Py_ssize_t, count=cython.longlong,
                   ranked=cython.longlong, smallest=cython.longlong, least=cython.longlong)
    cpdef bint add(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t end, bint write) except -1
    cpdef repeat(self, long long times)
    cdef unsigned long long _mark(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t end) noexcept
    cpdef move_last(self)
    @cython.locals(mark=cython.ulonglong, spread=cython.ulonglong, marks=cython.Py_ssize_t, way=cython.Py_ssize_t)
    cpdef move(self, const unsigned char *p, Py_ssize_t start, Py_ssize_t end)
    @cython.locals(size=cython.Py_ssize_t, ranked=list, floor=cython.longlong, count=cython.longlong,
                   least=cython.longlong, i=cython.Py_ssize_t, code=cython.longlong)
    cpdef object harvest(self, Py_ssize_t limit)
    cdef long long _at(self, Py_ssize_t i, Py_ssize_t field) noexcept
    cdef long long _count(self, Py_ssize_t i) noexcept
    @cython.locals(count=cython.longlong, error=cython.longlong, writes=cython.longlong)
    cdef object _key_count(self, Py_ssize_t i)
    @cython.locals(i=cython.Py_ssize_t)
    cdef int _reset(self) except -1
