cimport cython

from proxy.hotpath.cache.cached_reads cimport CachedReads
from proxy.hotpath.plan.hot_path_config cimport HotPathConfig
from proxy.hotpath.upstream.in_flight cimport ReplySink
from proxy.hotpath.plan.plan cimport Plan
from proxy.hotpath.replicas.reader_place cimport ReaderPlace, ReplicaGroup
from proxy.hotpath.plan.replica_reads cimport ReplicaReads
from proxy.hotpath.upstream.upstream_pipeline cimport UpstreamPipeline

cdef int _NEVER
cdef double _UNTOLD
cdef int MAY_WRITE


cdef class ClientReads:
    cdef public list places
    cdef public UpstreamPipeline primary
    cdef public bint away
    cdef public long long round
    cdef public bint eligible
    cdef public bint asks_owner
    cdef public object clock
    cdef public object choose
    cdef ReplySink _sender
    cdef ReplicaGroup _unknown
    cdef double _now
    cdef long long _map_version
    cdef bint _new
    cdef long long _run
    cdef ReaderPlace _last

    @cython.locals(place=ReaderPlace)
    cpdef ReaderPlace place(self, Py_ssize_t number)
    cpdef prefer_zone(self, ReaderPlace place)
    @cython.locals(place=ReaderPlace)
    cdef ReaderPlace _at(self, Py_ssize_t number)
    cpdef note(self, Py_ssize_t number, bint wrote)
    @cython.locals(place=ReaderPlace)
    cpdef note_everywhere(self, bint wrote)
    cpdef follow(self, long long map_version)
    @cython.locals(place=ReaderPlace)
    cpdef choose_anew(self, bint eligible)
    cpdef UpstreamPipeline home(self, UpstreamPipeline upstream)
    cpdef end_round(self)
    @cython.locals(plan=Plan, place=ReaderPlace, hides_absence=cython.bint)
    cdef bint goes_on(self, HotPathConfig config, int command_id, UpstreamPipeline upstream) except -1
    @cython.locals(plan=Plan, place=ReaderPlace)
    cdef int go_on(self, HotPathConfig config, int command_id, const unsigned char *data) except -1
    @cython.locals(plan=Plan, reads=ReplicaReads, place=ReaderPlace, terms=cython.int, hides_absence=cython.bint)
    cdef bint holds(self, HotPathConfig config, CachedReads cached_reads, int command_id, const unsigned char *data,
                    Py_ssize_t count, Py_ssize_t number) except -1
    @cython.locals(plan=Plan, place=ReaderPlace, reads=ReplicaReads, replica=UpstreamPipeline, primary=UpstreamPipeline,
                   hides_absence=cython.bint)
    cdef UpstreamPipeline source(self, HotPathConfig config, CachedReads cached_reads, int command_id,
                                 const unsigned char *data, bint passes, Py_ssize_t count, Py_ssize_t number)
    cdef bint _is_movable(self, HotPathConfig config, CachedReads cached_reads, int command_id,
                          const unsigned char *data, int terms) except -1
    cpdef bint waits(self, Py_ssize_t count) except -1
    cdef bint _waits_at(self, ReaderPlace place, Py_ssize_t count) except -1


cdef bint _is_remembered(HotPathConfig config, CachedReads cached_reads, int command_id,
                         const unsigned char *data) except -1
