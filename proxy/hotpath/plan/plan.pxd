cimport cython

from proxy.commands.keys cimport KeyFinder
from proxy.hotpath.counting.counters cimport Counters
from proxy.hotpath.plan.name_checks cimport NameProgram
from proxy.hotpath.plan.replica_reads cimport ReplicaReads
from proxy.hotpath.plan.request_edit cimport RequestEdit, RequestEditor
from proxy.hotpath.plan.schema_checks cimport EntryProgram
from proxy.hotpath.plan.value_checks cimport ValueProgram
from proxy.wire.request cimport Request


cdef int _PASS, _EDIT, _JUDGE, _REFUSE, _PREFIX
cdef Py_ssize_t _UNSOUGHT
cdef int _OP_JUDGE, _OP_COUNT, _OP_NAMES, _OP_EDIT, _OP_LIMIT, _OP_ENTRIES, _OP_EDIT_BY_ENTRY, _OP_REPLICA, _OP_KEYS
cdef int _OP_VALUES, _OP_PREFIX
cdef int MIXED, UNTOLD
cdef int _WRITES


@cython.final
cdef class Plan:
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
    cdef public list edits_by_entry
    cdef public unsigned short[::1] edits_by_entry_of
    cdef public RequestEditor editor
    cdef public bytes error
    cdef public long long[::1] changed
    cdef public bint spends
    cdef public list token_sets
    cdef public unsigned short[::1] token_sets_of
    cdef public ReplicaReads replica_reads
    cdef public int terms
    cdef public bint several
    cdef public bint prefixes
    cdef public Py_ssize_t found
    cdef int _counted

    cpdef bint judges(self, int command_id) except -1
    cpdef bint refuses(self, int command_id) except -1
    cpdef bint asks_replicas(self, int command_id) except -1
    @cython.locals(operation=cython.int, edit=RequestEdit)
    cpdef bint renames_at_most(self, int command_id) except -1
    cpdef int decide(self, int command_id, Request request, const unsigned char *data, KeyFinder keys,
                     Counters counters) except -1
    @cython.locals(operation=cython.int, outcome=cython.int)
    cpdef int decide_by(self, Py_ssize_t found, bint looked, int command_id, Request request, const unsigned char *data,
                        KeyFinder keys, Counters counters) except -1
    @cython.locals(operation=cython.int)
    cpdef Py_ssize_t look(self, Py_ssize_t found, int command_id, Request request, const unsigned char *data,
                          KeyFinder keys) except? -1
    @cython.locals(operation=cython.int, found=cython.Py_ssize_t)
    cpdef bint passes(self, int command_id, Request request, const unsigned char *data, KeyFinder keys) except -1
    @cython.locals(operation=cython.int, found=cython.Py_ssize_t)
    cpdef bint leaves_to_rules(self, int command_id, Request request, const unsigned char *data, KeyFinder keys) except -1
    @cython.locals(names=NameProgram, entries=EntryProgram, values=ValueProgram)
    cdef Py_ssize_t _check(self, Py_ssize_t found, int command_id, int operation, Request request,
                           const unsigned char *data, KeyFinder keys) except -2
    @cython.locals(reads=ReplicaReads)
    cpdef find_terms(self, Request request, const unsigned char *data, KeyFinder keys, Py_ssize_t found)
    @cython.locals(reads=ReplicaReads)
    cpdef count_terms(self)
    cpdef bint counts_keys(self, int command_id) except -1
    cpdef bint may_edit(self, int command_id) except -1
    @cython.locals(edit=RequestEdit, changed=cython.int)
    cdef int _edit(self, int command_id, int operation, Request request, const unsigned char *data, Py_ssize_t found) except -1
    cdef int _apply_edit(self, int command_id, int operation, Request request, const unsigned char *data, Py_ssize_t found) except -2
    @cython.locals(program=EntryProgram)
    cdef RequestEdit _edit_of(self, int command_id, int operation)
    @cython.locals(i=cython.Py_ssize_t, index=cython.Py_ssize_t, name=bytes)
    cpdef count(self, Request request, const unsigned char *data, KeyFinder keys, Py_ssize_t found,
                Counters counters)
