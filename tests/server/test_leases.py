"""The supervisor divides a limit among all workers by their demands."""

from proxy.rules.shared_state import Demand, Lease
from proxy.server.leases import Demands, deal_out


def test_each_worker_gets_its_shares_of_what_it_named() -> None:
    wanted: list[Demands] = [
        {"fair": {"a": Demand(0.6, 0), "b": Demand(3.0, 0)}},
        {"fair": {"b": Demand(1.0, 2)}},
        {},
    ]
    first = deal_out(wanted, 0)["fair"]
    assert first["a"].share > 0.6
    assert first["b"] == Lease(3.0 / 4.02, 2)
    assert deal_out(wanted, 1) == {"fair": {"b": Lease(1.0 / 4.02, 0)}}
    assert deal_out(wanted, 2) == {}


def test_a_worker_without_any_of_a_subjects_clients_hears_of_the_others() -> None:
    wanted: list[Demands] = [{"few": {"a": Demand(0.0, 3), "b": Demand(0.5, 0)}}, {"few": {}}]
    assert deal_out(wanted, 1) == {"few": {"a": Lease(0.5, 3)}}
