cimport cython

from proxy.hotpath.replicas.client_reads cimport ClientReads
from proxy.hotpath.intake.command_sender cimport CommandSender
from proxy.hotpath.cluster.portions cimport Portion, Portions
from proxy.hotpath.upstream.in_flight cimport InFlightEntry
from proxy.hotpath.upstream.splice cimport Splice
from proxy.hotpath.upstream.upstream_pipeline cimport UpstreamPipeline

cdef int _NOWHERE, EDIT_SOME


@cython.final
cdef class OpenRun:
    cdef public UpstreamPipeline upstream
    cdef public Portions portions
    cdef public Portion portion
    cdef public int node
    cdef public Splice splice
    cdef Splice _own_splice
    cdef Portions _own_portions
    cdef public ClientReads reads
    cdef public Py_ssize_t answered
    cdef public object edit
    cdef public Py_ssize_t start
    cdef public Py_ssize_t end
    cdef public Py_ssize_t count
    cdef public Py_ssize_t room
    cdef public int seed
    cdef public bint wrote
    cdef public bint direct
    cdef public bint is_plain

    cdef int begin(self, UpstreamPipeline upstream, bint divides, Py_ssize_t position) except -1
    cdef int _begin_at(self, Py_ssize_t position) except -1
    cdef Py_ssize_t unsent(self) except -1
    cdef int place(self) except -1
    cdef int turn(self, CommandSender sender, bytes data, const unsigned char *p, UpstreamPipeline upstream) except -1
    cdef bint is_whole(self) except -1
    cdef int turn_to_portion(self, const unsigned char *p, Portion portion, UpstreamPipeline upstream) except -1
    @cython.locals(portions=Portions, portion=Portion)
    cdef bint turn_to_source(self, CommandSender sender, bytes data, const unsigned char *p,
                             UpstreamPipeline source) except -1
    cdef int turn_to_edit(self, CommandSender sender, bytes data, const unsigned char *p, object edit) except -1
    @cython.locals(portions=Portions)
    cdef int leave(self, CommandSender sender, bytes data, const unsigned char *p, Py_ssize_t behind) except -1
    @cython.locals(portions=Portions, portion=Portion)
    cdef int _add(self, const unsigned char *p) except -1
    @cython.locals(splice=Splice, start=cython.Py_ssize_t, end=cython.Py_ssize_t, chunk=bytes,
                   upstream=UpstreamPipeline, entry=InFlightEntry)
    cdef int _send(self, CommandSender sender, bytes data, const unsigned char *p) except -1
    cdef int _counted_off(self) except -1


@cython.final
cdef class SpareRun:
    cdef public OpenRun run

    @cython.locals(run=OpenRun)
    cdef OpenRun take(self)
