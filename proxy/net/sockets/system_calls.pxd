cimport cython


cdef extern from *:
    """
    #include <errno.h>
    #include <sys/socket.h>
    #include <time.h>
    #ifdef __linux__
    #include <sys/epoll.h>
    #endif

    #ifndef MSG_NOSIGNAL /* not on macOS, where Python ignores SIGPIPE */
    #define MSG_NOSIGNAL 0
    #endif

    #define KEYRAIL_PIECE (1 << 18)
    #define KEYRAIL_READY 512

    /* All threads that receive hold the interpreter's lock from here until the bytes are copied. */
    static char keyrail_piece[KEYRAIL_PIECE];

    static int keyrail_would_block(void) {
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    }

    static PyObject *keyrail_receive(int descriptor) {
        ssize_t count = recv(descriptor, keyrail_piece, KEYRAIL_PIECE, MSG_DONTWAIT);
        if (count >= 0) return PyBytes_FromStringAndSize(keyrail_piece, count);
        if (keyrail_would_block()) Py_RETURN_NONE;
        return PyErr_SetFromErrno(PyExc_OSError);
    }

    static Py_ssize_t keyrail_send(int descriptor, const char *data, Py_ssize_t start, Py_ssize_t end) {
        ssize_t count = send(descriptor, data + start, end - start, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count >= 0) return count;
        if (keyrail_would_block()) return 0;
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }

    static double keyrail_clock(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    }

    /* Of what Cython passes for an array, this takes the address. */
    #define KEYRAIL_WAIT(descriptor, array, most) keyrail_wait(descriptor, (long long *)(array).data, most)

    static int keyrail_wait(int descriptor, long long *ready, Py_ssize_t most) {
    #ifdef __linux__
        struct epoll_event events[KEYRAIL_READY];
        int i, count = epoll_wait(descriptor, events, most < KEYRAIL_READY ? (int)most : KEYRAIL_READY, 0);
        for (i = 0; i < count; i++) ready[i] = (long long)events[i].data.fd << 32 | events[i].events;
        if (count >= 0) return count;
        if (errno == EINTR) return 0;
    #else
        errno = ENOSYS;
    #endif
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    """
    object _receive "keyrail_receive" (int descriptor)
    Py_ssize_t _send "keyrail_send" (int descriptor, const char *data, Py_ssize_t start, Py_ssize_t end) except -1
    double _clock "keyrail_clock" ()
    int _wait "KEYRAIL_WAIT" (int descriptor, long long[::1] ready, Py_ssize_t most) except -1

cdef bint _INTERPRETED

cpdef receive(int descriptor)
cpdef Py_ssize_t send(int descriptor, bytes data, Py_ssize_t start) except -1
cpdef double clock() except -1
cpdef int wait(epoll, int descriptor, long long[::1] ready) except -1
