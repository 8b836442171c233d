cimport cython

from proxy.commands.keys cimport KeyFinder
from proxy.wire.request cimport Request


cdef int _OPEN, _CLOSE


@cython.locals(first=cython.Py_ssize_t, size=cython.Py_ssize_t, i=cython.Py_ssize_t, start=cython.Py_ssize_t,
               end=cython.Py_ssize_t, opened=cython.Py_ssize_t, closed=cython.Py_ssize_t, tagged=cython.bint,
               first_tagged=cython.bint)
cpdef bint one_hashed_part(Request request, const unsigned char *data, KeyFinder keys, Py_ssize_t found) except -1
@cython.locals(i=cython.Py_ssize_t)
cdef bint _same(const unsigned char *p, Py_ssize_t first, Py_ssize_t second, Py_ssize_t size) except -1
