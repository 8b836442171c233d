"""What the local cache would do without one of the rules that keep it true. What chance has to meet, the hunts of
``coherence/test_broken_cache.py`` find."""

from __future__ import annotations

from tests.breaks.given import Break
from tests.broken_program import Change

UNIT = "local_cache/test_fills.py"
WRITTEN = f"{UNIT}::test_a_write_drops_what_is_kept_and_no_fill_begins_while_it_can_run"
WAITED_FOR = f"{UNIT}::test_what_may_write_any_key_is_waited_for"
ENGINE = "valkey-9.1"
ROUTE, READS = "net/test_local_caches.py", "hotpath/test_cached_reads.py"
WRITES = "coherence/test_own_writes.py"
LEFT = "test_a_swap_of_a_client_that_has_left_holds_back_a_database_that_is_read_first_meanwhile"
CACHE, CACHED = "hotpath/cache/reply_cache.py", "hotpath/cache/cached_reads.py"
FILLS, EXPECTED = "local_cache/fills.py", "local_cache/expected.py"
DATABASE = "net/cache/tracked_database.py"
SESSION = "session/commands/cached_answers.py"
BARRIER = "local_cache/test_barrier.py"
SLOTS, CLUSTER = "net/cache/cluster_slots.py", "local_cache/test_cluster_slots.py"

BREAKS = {
    "a write drops nothing": Break(CACHE, "if reply.resp3 is not None:", "if False:", WRITTEN),
    "invalidations are ignored": Break(
        CACHE,
        "        if key is not None:\n            self._drop(key)",
        "        pass",
        f"{UNIT}::test_an_invalidation_drops_what_is_kept",
    ),
    "an invalidation between TTL and value is ignored": Break(
        EXPECTED,
        "self._spoilt = self._spoilt or self._begun",
        "pass",
        f"{UNIT}::test_an_invalidation_behind_the_ttl_makes_the_fill_keep_nothing",
    ),
    "replies are trusted for a minute": Break(
        FILLS,
        "SILENCE = 1.0",
        "SILENCE = 60.0",
        f"{UNIT}::test_replies_are_not_trusted_for_longer_than_redis_has_answered",
    ),
    "fills begin while a write can still run": Break(
        CACHE, "        if self._held(key):\n", "        if False:\n", WRITTEN
    ),
    "a fill that began before a write is kept": Break(
        EXPECTED,
        "self.key.writes != self._writes",
        "False",
        f"{UNIT}::test_a_fill_that_began_before_a_write_keeps_nothing",
    ),
    "a script that still runs is not waited for": Break(
        CACHE, "return bool(self._waiting)", "return False", WAITED_FOR
    ),
    "what a script has changed is not waited for": Break(
        "local_cache/barrier.py", "self._awaited = set(self._connections())", "self._awaited = set()", WAITED_FOR
    ),
    "a lost connection leaves the cache as it is": Break(
        FILLS,
        "self._source.until = 0.0\n        self._cache.clear_of(self._source)\n        ex",
        "ex",
        f"{UNIT}::test_what_a_lost_connection_brought_is_found_no_more",
    ),
    "what swaps databases forgets nothing": Break(
        CACHE, "self._forget = False\n            self.clear()", "pass", WAITED_FOR
    ),
    "the TTL is ignored": Break(
        EXPECTED,
        "elif lifetime not in (_MISSING, _FOR_EVER):",
        "elif False:",
        f"{UNIT}::test_a_fill_asks_for_the_ttl_first_and_misses_of_one_request_share_it",
    ),
    "clients who look at all keys are not told apart": Break(
        CACHE,
        "for reader, at in self.looking.items() if reader.finished(at)}",
        "for reader, at in self.looking.items()}",
        BARRIER,
    ),
    "TTLs of fields are ignored": Break(
        "net/cache/cached_request.py",
        "fields = fields_read(read, command.argv)",
        "fields = ()",
        f"{WRITES}::test_fields_that_expire",
    ),
    "what Redis has sent is not taken in before an answer": Break(
        DATABASE,
        "if server is None or not server.take_in():",
        "if False:",
        f"net/test_tracking.py::test_what_redis_has_sent_is_taken_in_before_an_answer[{ENGINE}]",
    ),
    "reads that Redis answers hold nothing": Break(
        CACHED,
        "if role == _NO_KEYS or (reads and self.mask == 0):",
        "if role == _NO_KEYS or reads:",
        f"{READS}::test_a_read_that_redis_answers_drops_the_replies_of_its_key",
    ),
    "EXEC holds nothing": Break(
        CACHED,
        "for name in queued.names:",
        "for name in ():",
        f"{ROUTE}::test_a_write_is_read_however_it_is_made",
    ),
    "SWAPDB ends with its client": Break(
        SESSION,
        "caches.hold_back_untold(reads, sender, upstream, relayed=relayed)",
        "reads.hold_back(sender, sender.requested, True)",
        f"{WRITES}::test_nothing_is_answered_before_a_swap_has_run",
    ),
    "the intake sends SWAPDB by itself": Break(
        "hotpath/intake/runs.py",
        "if remembers is not None and remembers.waits_for_untold(command_id):",
        "if False:",
        f"{READS}::test_a_command_whose_changes_redis_does_not_tell_is_the_session_s",
    ),
    "a database first read while SWAPDB waits is not held": Break(
        "net/cache/local_caches.py", "self._without_invalidation.hold_back(database.cache)", "pass", f"{ROUTE}::{LEFT}"
    ),
    "SWAPDB from before the policy is not waited for": Break(
        "net/cache/local_caches.py",
        "self._without_invalidation.pending_on(self._connections.shared_in_use(), self._has_run_without_invalidation)",
        "pass",
        f"{ROUTE}::test_a_swap_from_before_the_policy_holds_back_what_is_read_while_it_waits",
    ),
    "SWAPDB of another worker's client is not noticed": Break(
        "net/cache/local_caches.py",
        "        self._user_changes.add()\n",
        "",
        f"{WRITES}::test_what_was_swapped_is_seen_by_clients_of_all_workers",
    ),
    "SWAPDB of a script is not noticed": Break(
        "rules/scripts/own_keys.py",
        "_UNTOLD.search(text) is not None",
        "False",
        f"{WRITES}::test_a_client_whose_script_swaps_databases_reads_what_is_there_now",
    ),
    "SWAPDB in a script's arguments is not noticed": Break(
        "rules/scripts/own_keys.py",
        "any(_UNTOLD.fullmatch(each) for each in command.argv[1:])",
        "False",
        f"{WRITES}::test_a_client_whose_script_swaps_databases_reads_what_is_there_now",
    ),
    "what was written in silence is forgotten": Break(
        SESSION,
        "reads is not None and not reads.cache.idle:",
        "False:",
        f"{ROUTE}::test_a_client_that_begins_anew_holds_everything_back",
    ),
    "what Keyrail has asked Redis is forgotten": Break(
        SESSION,
        "reads is not None and not reads.cache.idle and reads.mask != 0 and",
        "reads is not None and False and",
        f"{ROUTE}::test_keys_that_keyrail_has_looked_up_are_never_read_as_they_were_before",
    ),
    "commands from before a policy are forgotten": Break(
        "net/cache/earlier_commands.py",
        "if not sender.finished(sender.requested) and not self._lasts(client, sender.pending_replies > 1):",
        "if False:",
        f"{ROUTE}::test_a_read_that_was_only_audited_is_pending_when_the_client_is_answered_from_memory",
    ),
    "changes of users are not noticed": Break(
        DATABASE,
        "if changes == self._users_known:",
        "if True:",
        f"{WRITES}::test_rights_that_are_taken_away_reach_all_workers_before_the_administrator_is_answered",
    ),
    "another server leaves the cache as it is": Break(
        "net/route/route.py",
        "self._caches.server_changed()",
        "pass",
        "coherence/test_failovers.py",
        Change("net/pool/opening.py", "keeper)\n        opened.upstream.apart = True", "keeper)"),
    ),
    "that a key of a cluster is missing is kept": Break(
        FILLS, "keeps_missing=self._word is None", "keeps_missing=True", CLUSTER
    ),
    "slots that are open count": Break(SLOTS, "if slot not in own.opened}", "if True}", CLUSTER),
    "a node that is cut off is believed": Break(SLOTS, "if _OK in info else None", "if True else None", CLUSTER),
    "a slot that a node has lost stays open": Break(SLOTS, "if slot not in kept and", "if False and", CLUSTER),
    "a slot that is another node's by the map stays open": Break(SLOTS, "if old != new:", "if False:", CLUSTER),
    "a slot has the same mark again": Break(
        "hotpath/cache/slot_marks.py", "self._last += 1", "self._last = 1", CLUSTER
    ),
    "a node that sends clients elsewhere is believed": Break(
        FILLS, "self._source.until = 0.0\n        for each", "for each", CLUSTER
    ),
    "so is what it was asked before": Break(FILLS, "each.doubted = True", "pass", CLUSTER),
    "a node that sends fills elsewhere is believed": Break(FILLS, "if head.redirected:", "if False:", CLUSTER),
    "a node that answers anything is believed": Break(
        FILLS, "        if self._word is None:\n            self._trust(head)", "        self._trust(head)", CLUSTER
    ),
    "a lost connection leaves slots open": Break(
        SLOTS, "before = self._told.pop(node, None)", "before = None", CLUSTER
    ),
    "one node is asked for what a script has changed": Break(
        "local_cache/barrier.py",
        "set(self._connections())",
        "set(list(self._connections())[:1])",
        BARRIER,
    ),
    "keys of a command over slots are not held": Break(
        "hotpath/intake/split_runs.py",
        "remembers.hold(command_id, request, p, config.keys, sender, sender.requested)",
        "pass",
        f"{READS}::test_a_write_over_slots_holds_its_keys_until_each_part_is_answered",
    ),
}
