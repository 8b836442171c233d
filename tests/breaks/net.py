"""Servers that are not the expected one, replicas, users, logins, and clients that wait."""

from __future__ import annotations

from tests.breaks.given import Break

BEHIND = "simulation/test_cached_and_replica_reads.py::test_replicas_that_are_behind_answer_only_what_is_new_enough"
PLACE = "hotpath/replicas/reader_place.py"

BREAKS = {
    "a look at replicas that is under way counts": Break(
        PLACE, "                place.mark = self.looks\n", "                place.mark = self.looks - 1\n", BEHIND
    ),
    "that a client has another replica is forgotten": Break(
        PLACE,
        "        self._run = _NEVER\n        if self.used:\n",
        "        self._run = _NEVER\n        if False:\n",
        BEHIND,
    ),
    "what a replica lacks is read from it": Break(
        PLACE,
        "return self.marked or (self.replica is not None and self.replica.covered < self.mark)",
        "return self.marked",
        BEHIND,
    ),
    "the age of what a replica has does not count": Break(
        PLACE, "near = replica.lag <= max_lag and now <= replica.until", "near = True", BEHIND
    ),
    "a read behind one that a replica refuses stays there": Break(
        "session/replicas/read_retries.py",
        "if _is_of(entry.sink, self.client)]",
        "if _is_of(entry.sink, self.client)][:1]",
        "net/test_order_of_read_retries.py::test_replies_have_their_places",
    ),
    "a user's rights are those of any node": Break(
        "net/policy/rights.py",
        "frozenset.intersection(*told.values())",
        "frozenset().union(*told.values())",
        "net/test_rights.py::test_what_all_nodes_allow",
    ),
    "another server at a node's address is accepted": Break(
        "net/topology/node_guard.py",
        "found == self._cluster.identity(upstream.key.node).encode()",
        "True",
        "net/test_node_guard.py::test_who_answers_decides",
    ),
    "a server that a name led to once is accepted": Break(
        "net/topology/name_guard.py",
        'run_id_in(await upstream.ask(["INFO", "server"])) != known',
        "False",
        "failover/test_name_guard.py::test_the_address_has_another_server_now",
    ),
    "a lost slot range is not seen": Break(
        "net/topology/slot_map.py",
        "return any(slot not in mine for first, last in before.slots for slot in range(first, last + 1))",
        "return False",
        "net/test_slot_map.py::test_what_a_real_node_tells_of_its_own_slots",
    ),
    "a write of a client that gave up runs": Break(
        "net/downstream/patience.py",
        "return self._is_over(age) and not encrypted and may_change(_unread(sock))",
        "return False",
        "net/test_patience.py::test_who_is_refused",
    ),
    "a wrong password is accepted": Break(
        "net/logins/password_file.py",
        "            return LoginReply(_WRONG)",
        "            return _ACCEPTED",
        "net/test_password_file.py::test_a_changed_file_counts_from_the_next_millisecond_on",
    ),
    "an idle client stays": Break(
        "net/downstream/idle_clients.py",
        "if self._now - since >= self._seconds:",
        "if False:",
        "failures/test_idle_clients.py::test_who_waits_stays_and_who_rests_is_closed",
    ),
    "a flushed script is still known": Break(
        "net/topology/known_scripts.py",
        "        if news.flushed:\n",
        "        if False:\n",
        "net/test_known_scripts.py::test_workers_tell_each_other_what_is_new",
    ),
    "a client is logged in at one node alone": Break(
        "net/pool/user_logins.py",
        "return not expected and self._alive(node) and not self._has(user, node)",
        "return False",
        "net/test_user_logins.py::test_with_a_cluster_upstream_those_are_closed_that_have_used_it",
    ),
    "a restarted server is the same": Break(
        "net/pool/restarts.py",
        "            self._close_clients(node)\n",
        "            pass\n",
        "net/test_restarts.py::test_clients_are_closed_when_the_process_is_another_and_only_then",
    ),
    "each reply is late at once": Break(
        "net/downstream/reply_timeout.py",
        "if self._turned - wait.since < self._seconds:",
        "if True:",
        "failures/test_upstream_timeout.py::test_a_reply_that_takes_too_long_closes_its_client",
    ),
}
