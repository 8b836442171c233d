cimport cython


cpdef bint redirected(const unsigned char *p, Py_ssize_t i, Py_ssize_t end) except -1
cpdef bint unable(const unsigned char *p, Py_ssize_t i, Py_ssize_t end) except -1
cpdef bint read_only(const unsigned char *p, Py_ssize_t i, Py_ssize_t end) except -1
cpdef bint refuses_command(const unsigned char *p, Py_ssize_t i, Py_ssize_t end) except -1

@cython.locals(n=cython.Py_ssize_t)
cdef bint _ends(const unsigned char *p, Py_ssize_t i, Py_ssize_t end, const unsigned char *word,
                Py_ssize_t size) except -1
