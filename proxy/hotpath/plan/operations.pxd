from proxy.hotpath.plan.replica_reads cimport ReplicaReads


cdef class PlanOperations:
    cdef public unsigned short[::1] operations
    cdef public list programs
    cdef public unsigned short[::1] program_of
    cdef public list edits
    cdef public unsigned short[::1] edit_of
    cdef public list errors
    cdef public unsigned short[::1] error_of
    cdef public long long[::1] most_bytes
    cdef public long long[::1] most_arguments
    cdef public list entry_programs
    cdef public unsigned short[::1] entry_program_of
    cdef public list value_programs
    cdef public unsigned short[::1] value_program_of
    cdef public list key_programs
    cdef public unsigned short[::1] key_programs_of
    cdef public list reply_programs
    cdef public unsigned short[::1] reply_programs_of
    cdef public list edits_by_entry
    cdef public unsigned short[::1] edits_by_entry_of
    cdef public long long[::1] changed
    cdef public bint spends
    cdef public list token_sets
    cdef public unsigned short[::1] token_sets_of
    cdef public ReplicaReads replica_reads
    cdef public bint prefixes

    cpdef bint refuses(self, int command_id) except -1
