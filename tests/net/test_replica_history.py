"""Offsets of a replica become seconds by what the offset of its primary was, and when."""

from __future__ import annotations

from proxy.net.replicas.replica_history import PrimaryHistory, Sample, Told, read_replication

PRIMARY = b"""# Replication\r
role:master\r
connected_slaves:2\r
slave0:ip=10.0.0.2,port=6380,state=online,offset=1420,lag=0\r
slave1:ip=fd00::3,port=6381,state=wait_bgsave,offset=0,lag=0\r
master_failover_state:no-failover\r
master_replid:aaaa\r
master_repl_offset:1434\r
"""
REPLICA = b"""# Replication\r
role:slave\r
master_host:10.0.0.1\r
master_link_status:down\r
master_sync_in_progress:1\r
slave_read_repl_offset:1434\r
slave_repl_offset:1420\r
master_replid:aaaa\r
master_repl_offset:1434\r
"""


def test_what_a_primary_says() -> None:
    assert read_replication(PRIMARY) == Told(False, "aaaa", 1434, replicas=(("10.0.0.2", 6380), ("fd00::3", 6381)))


def test_what_a_replica_says_is_what_it_has_applied() -> None:
    assert read_replication(REPLICA) == Told(True, "aaaa", 1420, linked=False, syncing=True)
    assert read_replication(b"role:slave\r\nmaster_replid:a\r\n") is None
    assert read_replication(b"") is None


def test_a_replica_has_all_that_its_primary_had_when_it_had_the_same_offset() -> None:
    history = PrimaryHistory()
    assert history.covered_by(10) is None
    for look, at, offset in ((1, 10.0, 100), (2, 11.0, 100), (3, 12.0, 150)):
        history.add(look, at, offset)
    assert history.covered_by(99) is None
    assert history.covered_by(100) == Sample(2, 11.0, 100)
    assert history.covered_by(149) == Sample(2, 11.0, 100)
    assert history.covered_by(151) == history.last == Sample(3, 12.0, 150)


def test_the_history_is_bounded() -> None:
    history = PrimaryHistory()
    for look in range(5000):
        history.add(look, float(look), look)
    assert history.covered_by(10) is None
    assert history.covered_by(4800) == Sample(4800, 4800.0, 4800)
