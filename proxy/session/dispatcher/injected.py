"""What a session calls of its handlers, which import it: with one server, and with a cluster upstream."""

from proxy.session.cluster import redirects
from proxy.session.commands import follow_ups
from proxy.session.dispatcher import handlers, leaving
from proxy.session.dispatcher.dispatcher import Dispatcher
from proxy.session.ports.ports import Ports
from proxy.session.replicas import replica_reads
from proxy.session.session import Handlers

_WITH_ONE_SERVER = Handlers(
    Dispatcher,
    follow_ups.catch_up,
    replica_reads.begin,
    redirects.told_instead,
    leaving.turn_away,
    leaving.leave,
    handlers.to_server,
)
_WITH_A_CLUSTER = _WITH_ONE_SERVER._replace(to_primary=handlers.to_cluster)


def handlers_of(ports: Ports) -> Handlers:
    """Those of a route with these ports."""
    return _WITH_ONE_SERVER if ports.nodes is None else _WITH_A_CLUSTER
