"""The connections of users whom clients log in as, by user and node.

Each loss of a connection asks for the others, and many are lost at once. A connection gets its user long after it was
opened, wherever Redis accepts a login on it. So its pipeline tells of each change.
"""

from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.pool.groups import Groups
from proxy.session.ports.keyed_pipeline import KeyedPipeline
from proxy.session.ports.pool_key import Node


class UserConnections:
    """Those of one route."""

    def __init__(self) -> None:
        self._by_user: Groups[KeyedPipeline, str] = Groups()
        self._by_login: Groups[KeyedPipeline, tuple[str, Node]] = Groups()

    def add(self, upstream: UpstreamConnection) -> None:
        """A connection has been opened."""
        upstream.pipeline.followed = self._follow
        self._follow(upstream.pipeline)

    def remove(self, upstream: UpstreamConnection) -> None:
        """A connection is lost."""
        upstream.pipeline.followed = None
        self._by_user.put(upstream.pipeline, None)
        self._by_login.put(upstream.pipeline, None)

    def any_of(self, user: str) -> bool:
        """Whether the user has connections to any node."""
        return bool(self._by_user.of(user))

    def count(self, user: str, node: Node) -> int:
        """How many connections of the user to this node take commands."""
        return len(self._by_login.of((user, node)))

    def _follow(self, pipeline: KeyedPipeline) -> None:
        user, node = pipeline.key.user, pipeline.key.node
        self._by_user.put(pipeline, user)
        self._by_login.put(pipeline, None if user is None or pipeline.retiring else (user, node))
