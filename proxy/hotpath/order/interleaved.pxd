cimport cython

from proxy.hotpath.upstream.in_flight cimport InFlightEntry, ReplySink
from proxy.hotpath.order.reply_order cimport ReplyOrder, Segment
from proxy.hotpath.upstream.splice cimport Splice
from proxy.hotpath.upstream.upstream_pipeline cimport UpstreamPipeline
from proxy.wire.reply cimport ReplyScanner

cdef int FORWARD, COMPLETE
cdef Py_ssize_t _ENOUGH, _MOST_WAITING
cdef long long MOST_HELD
cdef Splice _SPACE
cdef ReplyScanner _SCANNER
cdef object _ANYTHING


cdef class Strand(ReplySink):
    cdef public Interleaved whole
    cdef public UpstreamPipeline source
    cdef public bytes chunk
    cdef public Py_ssize_t at
    cdef public bint fresh

    cpdef take_part(self, Interleaved whole, UpstreamPipeline source)
    cdef bint put(self, bytes chunk) except -1
    @cython.locals(whole=Interleaved, order=ReplyOrder)
    cpdef flush(self)
    @cython.locals(whole=Interleaved)
    cpdef advance(self)
    @cython.locals(end=cython.Py_ssize_t)
    cpdef hand_over(self, Segment segment)
    @cython.locals(entry=InFlightEntry, behind=InFlightEntry, due=cython.Py_ssize_t, rest=cython.Py_ssize_t)
    cdef _hand_over_entry(self, Segment segment)


cdef class Interleaved(Segment):
    cdef public bytes turns
    cdef public Py_ssize_t done
    cdef public Py_ssize_t waiting
    cdef public Py_ssize_t unfinished
    cdef public list strands

    cpdef begin(self, ReplyOrder order, bytes turns)
    @cython.locals(strand=Strand)
    cpdef Strand strand(self, UpstreamPipeline source)
    @cython.locals(turns="const unsigned char *", total=cython.Py_ssize_t, done=cython.Py_ssize_t, number=cython.int,
                   strand=Strand, chunk=bytes, size=cython.Py_ssize_t, first=cython.Py_ssize_t, at=cython.Py_ssize_t,
                   end=cython.Py_ssize_t)
    cpdef merge(self)
    @cython.locals(strand=Strand, segment=Segment, last=Segment, behind=Segment)
    cpdef take_apart(self)
    cpdef abandon(self)


@cython.locals(whole=Interleaved)
cpdef Interleaved interleave(ReplyOrder order, bytes turns)
