cimport cython

from proxy.commands.keys cimport KeyFinder
from proxy.wire.request cimport Request

cdef int SLOTS
cdef int _KEYLESS, _KEYS_UNTOLD, _SEVERAL_SLOTS, _UNOWNED, _OPEN, _CLOSE, _STEP, _LAST_SLOT, _BLOCK_BITS, _BLOCK, _MIXED


@cython.final
cdef class Router:
    cdef int[::1] owners
    cdef int[::1] _blocks
    cdef unsigned short[::1] table
    cdef public long long version

    @cython.locals(slot=cython.int)
    cpdef own(self, int first, int last, int node)
    @cython.locals(block=cython.int, slot=cython.int, owner=cython.int)
    cdef _look_at_blocks(self, int first, int last)
    @cython.locals(node=cython.int)
    cpdef int owner(self, int slot) except -5
    cpdef int node(self, int command_id, Request request, const unsigned char *data, KeyFinder keys) except -5
    @cython.locals(i=cython.Py_ssize_t, index=cython.Py_ssize_t, slot=cython.int)
    cpdef int node_of(self, Py_ssize_t found, Request request, const unsigned char *data, KeyFinder keys,
                      int seed) except -5
    cpdef int seed_of(self, bytes prefix) except -5
    @cython.locals(i=cython.Py_ssize_t, braces=cython.uchar)
    cpdef int slot(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end, int seed) except -5
    @cython.locals(i=cython.Py_ssize_t, first=cython.Py_ssize_t)
    cdef int _tagged(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end, int seed) except -5
    @cython.locals(crc=cython.int, rest=cython.Py_ssize_t, row=cython.Py_ssize_t)
    cdef int _crc(self, const unsigned char *p, Py_ssize_t i, Py_ssize_t end, int seed) except -5
