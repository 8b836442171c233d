"""The order of replies, runs of commands, edits and counters."""

from __future__ import annotations

from tests.breaks.given import Break

BREAKS = {
    "an own answer goes into another segment": Break(
        "hotpath/order/reply_order.py",
        "if not isinstance(segment, OwnAnswers):",
        "if segment is None:",
        "hotpath/test_reply_order.py::test_replies_come_in_the_order_of_the_commands",
    ),
    "a run keeps the bytes of the last one": Break(
        "hotpath/upstream/splice.py",
        "        self.size = 0\n        if self._capacity > _KEPT_CAPACITY:",
        "        if self._capacity > _KEPT_CAPACITY:",
        "hotpath/test_splice.py::test_pieces_come_out_in_order_and_once",
    ),
    "a run that broke off is part of the next one": Break(
        "hotpath/upstream/splice.py",
        'client\'s."""\n        self.size = size',
        'client\'s."""',
        "hotpath/test_splice.py::test_what_was_put_for_a_run_that_broke_off_is_forgotten",
    ),
    "keys of several slots go to the node of the first": Break(
        "hotpath/cluster/router.py",
        "                return _SEVERAL_SLOTS",
        "                pass",
        "hotpath/test_router.py::test_the_node_is_that_of_the_keys",
    ),
    "a hash tag is ignored": Break(
        "hotpath/cluster/router.py",
        "self._crc(data, start, end, seed) if braces == 0 else self._tagged(data, start, end, seed)",
        "self._crc(data, start, end, seed)",
        "hotpath/test_router.py::test_a_slot_is_found_where_the_key_stands",
    ),
    "a tenant's key is at the node of its own name": Break(
        "hotpath/intake/runs.py",
        "router.seed_of(self.prefix)",
        "0",
        "hotpath/test_router.py::test_a_tenants_keys_are_at_the_nodes_of_their_whole_names",
    ),
    "a key outside of a rule's pattern is read from a replica": Break(
        "hotpath/plan/replica_reads.py",
        "        if not inside:\n",
        "        if False:\n",
        "hotpath/test_replica_reads.py::test_a_request_goes_by_the_terms_of_all_its_keys",
    ),
    "a read that is only audited goes to a replica": Break(
        "hotpath/plan/replica_reads.py",
        "if place >= 0 and not self.enforced[place]:",
        "if False:",
        "hotpath/test_replica_reads.py::test_a_request_goes_by_the_terms_of_all_its_keys",
    ),
    "replies of two clients are one entry": Break(
        "hotpath/upstream/in_flight.py",
        "if tail is not None and tail.sink is sink and tail.action == _FORWARD:",
        "if tail is not None and tail.action == _FORWARD:",
        "hotpath/test_upstream_pipeline.py::test_case",
    ),
    "bytes of two clients mix in one connection": Break(
        "hotpath/upstream/outgoing.py",
        "return self.partial is None and (self.unit is None or self.unit is sender)",
        "return True",
        "hotpath/test_outgoing.py::test_only_what_belongs_there_is_written",
    ),
    "a TTL is appended where one is stated": Break(
        "hotpath/plan/request_edit.py",
        "elif argc != request.argc or self.number or not appending.settled(request, data):",
        "elif False:",
        "hotpath/test_request_edit.py::test_a_chain_does_what_its_edits_do_one_after_the_other",
    ),
    "a key is counted as another one": Break(
        "hotpath/counting/counters.py",
        "if self._table[marks + way] == mark and count > 0:",
        "if count > 0:",
        "hotpath/test_counters.py::test_the_truth_is_within_the_bounds_when_keys_fight_for_counters",
    ),
}
