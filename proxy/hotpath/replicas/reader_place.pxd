cimport cython

from proxy.hotpath.upstream.in_flight cimport ReplySink
from proxy.hotpath.upstream.upstream_pipeline cimport UpstreamPipeline

cdef int _NEVER
cdef double _NO_LAG
cdef Py_ssize_t MOST_KEPT


cdef class Replica:
    cdef public str name
    cdef public long long covered
    cdef public double lag
    cdef public double until

    cpdef measured(self, long long covered, double lag, double until)
    cpdef leave(self)


cdef class ReplicaGroup:
    cdef public long long version
    cdef public long long looks
    cdef public bint watched
    cdef public bint wanted
    cdef public object hurry
    cdef public list marked
    cdef public long long moved
    cdef public long long behind
    cdef public long long unfit

    cpdef follow(self, ReplicaGroup before)
    cpdef want(self)
    @cython.locals(place=ReaderPlace, sender=ReplySink)
    cpdef long long begin_look(self) except -1
    @cython.locals(place=ReaderPlace, replica=Replica)
    cpdef list returning(self)
    cpdef changed(self)


cdef class ReaderPlace:
    cdef public ReplySink sender
    cdef public ReplicaGroup group
    cdef public int number
    cdef public long long version
    cdef public long long chosen
    cdef public long long looked
    cdef public Replica replica
    cdef public UpstreamPipeline upstream
    cdef public long long mark
    cdef public bint marked
    cdef public bint wrote
    cdef public bint used
    cdef public long long asked
    cdef public bint same_zone
    cdef long long _run
    cdef int _terms
    cdef bint _hides_absence

    cpdef note(self, bint wrote)
    cpdef attach(self, ReplicaGroup group)
    cpdef choose(self, Replica replica, UpstreamPipeline upstream)
    @cython.locals(group=ReplicaGroup)
    cpdef UpstreamPipeline reader(self, double max_lag, double now, bint hides_absence=*)
    cpdef note_reader(self, long long run, int terms, bint hides_absence)
    cpdef bint goes_on(self, long long run, int terms, bint hides_absence) except -1
    cpdef bint may_read(self, double max_lag, double now, bint hides_absence) except -1
    @cython.locals(replica=Replica, upstream=UpstreamPipeline)
    cdef bint _is_near(self, double max_lag, double now, bint hides_absence) except -1
    cdef bint _is_behind(self) except -1
