cimport cython

from proxy.commands.keys cimport KeyFinder
from proxy.hotpath.portions cimport Portions
from proxy.wire.request cimport Request

cdef int SLOTS
cdef int _KEYLESS, _KEYS_UNTOLD, _SEVERAL_SLOTS, _UNOWNED, _OPEN, _CLOSE


@cython.final
cdef class Router:
    cdef int[::1] owners
    cdef unsigned short[::1] table
    cdef public long long version
    cdef public Portions portions

    cpdef own(self, int first, int last, int node)
    cpdef int owner(self, int slot) except -5
    @cython.locals(found=cython.Py_ssize_t, i=cython.Py_ssize_t, index=cython.Py_ssize_t, slot=cython.int, other=cython.int)
    cpdef int node(self, int command_id, Request request, const unsigned char *data, KeyFinder keys) except -5
    @cython.locals(i=cython.Py_ssize_t, first=cython.Py_ssize_t, crc=cython.int)
    cpdef int slot(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end) except -5
