"""Joined replies, walks, and what must not name a node."""

from __future__ import annotations

from tests.breaks.given import Break

BREAKS = {
    "one node's error counts as success": Break(
        "cluster/joins.py",
        "if any(is_error(frame) for frame in frames):",
        "if all(is_error(frame) for frame in frames):",
        "session/test_over_nodes.py::test_all_nodes_get_it_on_their_slow_lane_and_nothing_overtakes",
    ),
    "a sum leaves a node out": Break(
        "cluster/joins.py",
        'return b":%d\\r\\n" % sum(map(number, frames))',
        'return b":%d\\r\\n" % sum(map(number, frames[1:]))',
        "cluster/test_joins.py::test_joins",
    ),
    "a forged cursor is believed": Break(
        "cluster/scan_cursor.py",
        "if not text.isdigit() or len(text) > _MOST_DIGITS or int(text) > _LARGEST:",
        "if not text.isdigit():",
        "cluster/test_scan_walk.py::test_what_is_no_cursor_is_an_error",
    ),
    "a walk goes on where the map is another one": Break(
        "cluster/scan_walk.py",
        "elif not self._primaries.know(cursor.mark):",
        "elif False:",
        "cluster/test_scan_walk.py::test_a_keyrail_asks_once_whether_it_knows_the_primaries_of_a_walk",
    ),
    "an error shows the address of a node": Break(
        "cluster/hidden_nodes.py",
        '    if not SHOWS_NODES.hinted(frame):\n        return frame\n    return b"-CLUSTERDOWN',
        '    if True:\n        return frame\n    return b"-CLUSTERDOWN',
        "cluster/test_hidden_nodes.py::test_no_reply_names_a_node",
    ),
    "a pattern for events of keys is like any other": Break(
        "cluster/notifications.py",
        "return any(may_begin(pattern, beginning) for beginning in _BEGINNINGS)",
        "return False",
        "session/test_subscriber.py::test_any_order_of_events",
    ),
    "a split read that failed tells of keys that ran": Break(
        "cluster/split_commands.py",
        "if spec.write else first_error(frames)",
        "if not spec.write else first_error(frames)",
        "session/test_split_by_intake.py::test_moved_slots_and_errors_change_nothing_for_the_client",
    ),
    "slots of several addresses are shared anyhow": Break(
        "cluster/shares.py",
        "(past or nodes_left <= parts_left)",
        "False",
        "session/test_shares_of_nodes.py::test_what_any_node_can_do_a_node_of_the_address_does",
    ),
    "a pattern without a star is read as if it had one": Break(
        "cluster/key_pattern.py",
        "        if not self._starred:\n            return place == end\n",
        "",
        "cluster/test_key_pattern.py::test_as_an_engine_does",
    ),
    "PUBLISH answers before all nodes that count": Break(
        "cluster/publishing.py",
        "        if self._missing == 0:\n            return self._sum()",
        "        if True:\n            return self._sum()",
        "session/test_publishing.py::test_the_subscribers_of_all_nodes_are_counted",
    ),
}
