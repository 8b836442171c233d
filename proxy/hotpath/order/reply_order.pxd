cimport cython

from proxy.hotpath.upstream.in_flight cimport InFlightEntry, ReplySink, taken
from proxy.hotpath.upstream.upstream_pipeline cimport UpstreamPipeline


cdef int _LARGE


cdef class Segment(ReplySink):
    cdef public ReplyOrder order
    cdef public UpstreamPipeline source
    cdef public Py_ssize_t asked
    cdef public list held
    cdef public Segment next_entry

    cpdef stand(self, ReplyOrder order, UpstreamPipeline source)
    cpdef list sources(self)
    cpdef take_apart(self)
    cpdef abandon(self)


@cython.final
cdef class OwnAnswers(Segment):
    pass


@cython.final
cdef class ReplyOrder:
    cdef public ReplySink asker
    cdef public UpstreamPipeline before
    cdef public Segment first
    cdef public Segment last
    cdef public Py_ssize_t beyond
    cdef public Py_ssize_t size
    cdef public long long joining

    cpdef begin(self, ReplySink asker, UpstreamPipeline before)
    @cython.locals(segment=Segment)
    cpdef answer(self, bytes payload)
    @cython.locals(last=Segment)
    cpdef Segment segment(self, UpstreamPipeline source)
    cpdef Segment place(self)
    @cython.locals(segment=Segment)
    cdef Segment _behind_all(self, UpstreamPipeline source)
    cpdef append(self, Segment segment)
    cpdef ask(self, Segment segment, Py_ssize_t count)
    @cython.locals(entry=InFlightEntry, sink=ReplySink, place=Segment, behind=Segment, part=Segment, last=Segment)
    cpdef Segment set_apart(self, UpstreamPipeline source, moved)
    @cython.locals(each=Segment)
    cpdef list spread(self, Segment place)
    @cython.locals(asker=ReplySink)
    cpdef bring(self, Segment segment, bytes payload)
    @cython.locals(asker=ReplySink, chunk=bytes)
    cpdef take(self, Segment segment)
    cpdef bint is_next(self, Segment segment) except -1
    @cython.locals(chunk=bytes)
    @cython.locals(chunk=bytes)
    cdef _leave(self, Segment segment)
    @cython.locals(asker=ReplySink, segment=Segment, next_entry=Segment, done=cython.Py_ssize_t)
    cpdef advance(self)
