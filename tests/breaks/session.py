"""Transactions, follow-ups, redirects and logins of one client."""

from __future__ import annotations

from tests.breaks.given import Break

BREAKS = {
    "a refusal in a MULTI without a node spoils nothing": Break(
        "session/commands/sending.py",
        "        state.spoiled = True\n",
        "        pass\n",
        "session/test_nodeless_multi.py::test_a_command_that_is_refused_makes_exec_fail",
    ),
    "EXEC of a spoiled MULTI without a node runs": Break(
        "session/cluster/nodeless_multi.py",
        "    if state.spoiled:\n        return _ABORTED\n",
        "",
        "session/test_nodeless_multi.py::test_a_command_that_is_refused_makes_exec_fail",
    ),
    "a pinned connection is given back with state on it": Break(
        "session/commands/switching.py",
        "if session.keeps_pin() or (session.sender.pending_replies > 0 and state.keeping is not Keeping.RETURNING):",
        "if False:",
        "session/test_pinned.py::test_monitor_is_relayed_from_its_first_line_on",
    ),
    "a client that has pending replies changes upstreams": Break(
        "session/commands/switching.py",
        "    drained(session)\n    found = shared_of",
        "    found = shared_of",
        "session/test_session.py::test_slow_commands_have_a_lane_of_their_own_and_a_client_pending_replies_on_one",
    ),
    "follow-ups are sent inside WATCH": Break(
        "session/commands/follow_ups.py",
        "    if session.state.watching is not None or session.state.transaction is not None:\n        return False\n",
        "",
        "session/test_follow_ups.py::test_a_renewal_of_a_watched_key_waits_for_exec",
    ),
    "follow-ups are kept without a bound": Break(
        "session/commands/follow_ups.py",
        "if session.deferred is None or len(session.deferred) < MOST_WAITING or session.state.transaction is not None:",
        "if True:",
        "session/test_follow_ups.py::test_no_more_than_so_many_renewals_wait_and_they_leave_in_slices",
    ),
    "a write over slots is split whatever the policy says": Break(
        "session/cluster/over_slots.py",
        "return session.effective_policy.compiled.policy.splits_writes",
        "return True",
        "session/test_over_nodes.py::test_other_commands_over_slots_are_refused",
    ),
    "a command that may have run is sent again": Break(
        "session/cluster/refused_commands.py",
        "            if may_have_run:\n",
        "            if False:\n",
        "session/test_redirects.py::test_order_holds_in_every_interleaving",
    ),
    "a blocked command waits anew when its slot moves": Break(
        "session/cluster/blocking.py",
        "            yield from _look(session, nodes, item, blocked)\n",
        "            pass\n",
        "session/test_blocking.py::test_where_its_slot_leaves_it_is_sent_to_the_new_owner",
    ),
    "a command of which something has been sent is begun anew": Break(
        "session/dispatcher/routing.py",
        "        if step is None:\n            sent",
        "        if step is None or True:\n            sent",
        "session/test_blocking.py::test_where_its_slot_leaves_it_is_sent_to_the_new_owner",
    ),
    "a client that leaves leaves what its command has begun": Break(
        "session/dispatcher/leaving.py",
        "        held.close()\n",
        "        pass\n",
        "session/test_procedure.py::test_a_client_that_leaves_ends_it",
    ),
    "MULTI that has waited looks ahead at what was there before": Break(
        "session/dispatcher/dispatcher.py",
        "                held.look_ahead = LookAhead(data, request.end)\n",
        "                pass\n",
        "session/test_transaction.py::test_one_of_which_the_rest_arrives_while_multi_waits_is_whole",
    ),
    "a blocking command that is sent for the first time has less time": Break(
        "session/cluster/blocking.py",
        "        if self.since is None:\n            self.since = now\n",
        "        if self.since is None:\n            self.since = now - 0.001\n",
        "session/test_blocking.py::test_the_first_time_it_is_sent_as_it_is",
    ),
    "thousands of clients go on in one turn of the loop": Break(
        "net/downstream/waiting.py",
        "        for _ in range(PORTION):\n",
        "        while True:\n",
        "net/test_waiting.py::test_what_comes_for_all_comes_in_portions",
    ),
    "WAIT asks one primary": Break(
        "session/cluster/wait_for_replicas.py",
        "return [node for node in primaries if written & bit_of(node.number)]",
        "return primaries[:1]",
        "session/test_wait_for_replicas.py::test_only_nodes_that_were_written_to_are_asked",
    ),
    "HELLO before the login lets commands pass": Break(
        "session/logins/login.py",
        "            return _NOAUTH\n",
        "            return None\n",
        "session/test_login.py::test_nothing_reaches_an_upstream_before_the_login",
    ),
}
