"""What INFO replication of a replica and of its primary say together."""

from __future__ import annotations

import pytest

from proxy.net.replica_lag import ReplicaState, state_of

REPLICA = {"master_link_status": "up", "master_replid": "a", "slave_repl_offset": "90", "slave_read_repl_offset": "95"}
PRIMARY = {"master_replid": "a", "master_repl_offset": "100"}


@pytest.mark.parametrize(
    ("replica", "primary", "state"),
    [
        (REPLICA, PRIMARY, ReplicaState(reached=True, linked=True, lag=10)),
        (REPLICA, PRIMARY | {"master_repl_offset": "80"}, ReplicaState(reached=True, linked=True, lag=0)),
        (REPLICA, PRIMARY | {"master_replid": "b"}, ReplicaState(reached=True, linked=True, lag=None)),
        (REPLICA, None, ReplicaState(reached=True, linked=True, lag=None)),
        (REPLICA | {"master_link_status": "down"}, PRIMARY, ReplicaState(reached=True, linked=False, lag=None)),
        ({}, {}, ReplicaState(reached=True, linked=True, lag=None)),
        (None, PRIMARY, ReplicaState(reached=False)),
    ],
)
def test_the_lag_of_a_replica(
    replica: dict[str, str] | None, primary: dict[str, str] | None, state: ReplicaState
) -> None:
    assert state_of(replica, primary) == state
