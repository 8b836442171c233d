cimport cython

from proxy.commands.keys cimport KeyFinder
from proxy.hotpath.counting.counters cimport Counters
from proxy.hotpath.plan.hash_tags cimport one_hashed_part
from proxy.hotpath.plan.key_checks cimport KeyProgram
from proxy.hotpath.plan.name_checks cimport NameProgram
from proxy.hotpath.plan.operations cimport PlanOperations
from proxy.hotpath.plan.replica_reads cimport ReplicaReads
from proxy.hotpath.plan.reply_edits cimport ReplyProgram
from proxy.hotpath.plan.request_edit cimport RequestEdit, RequestEditor
from proxy.hotpath.plan.schema_checks cimport EntryProgram
from proxy.hotpath.plan.value_checks cimport ValueProgram
from proxy.hotpath.upstream.splice cimport Splice
from proxy.wire.request cimport Request


cdef int _PASS, _EDIT, _JUDGE, _REFUSE, _PREFIX, _EDIT_REPLY
cdef Py_ssize_t _UNSOUGHT
cdef int OP_CHANGES, OP_COUNT, OP_EDIT, OP_EDIT_BY_ENTRY, OP_EDIT_REPLY, OP_ENTRIES, OP_JUDGE, OP_KEYS
cdef int OP_LIMIT, OP_NAMES, OP_ONE_SLOT, OP_PREFIX, OP_REPLICA, OP_SOME_KEYS, OP_VALUES
cdef int MIXED, UNTOLD
cdef int _WRITES
cdef Splice _NAME


@cython.final
cdef class Plan(PlanOperations):
    cdef public RequestEditor editor
    cdef public bytes error
    cdef public int terms
    cdef public bint several
    cdef public Py_ssize_t found
    cdef int _counted
    cdef public object reply_edit

    cpdef bint judges(self, int command_id) except -1
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
    @cython.locals(names=NameProgram, entries=EntryProgram, values=ValueProgram, program=KeyProgram)
    cdef Py_ssize_t _check(self, Py_ssize_t found, int command_id, int operation, Request request,
                           const unsigned char *data, KeyFinder keys) except -2
    @cython.locals(program=ReplyProgram)
    cdef bint _edits_reply(self, int command_id, Request request, const unsigned char *data, KeyFinder keys,
                           Py_ssize_t found) except -1
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
    @cython.locals(added=cython.Py_ssize_t, i=cython.Py_ssize_t, index=cython.Py_ssize_t)
    cpdef count(self, Request request, const unsigned char *data, KeyFinder keys, Py_ssize_t found,
                Counters counters)
