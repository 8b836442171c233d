"""An upstream that is of a pool, and tells whoever keeps it by its login when that changes."""

from collections.abc import Callable

from proxy.hotpath.counting.error_counts import ErrorCounts
from proxy.hotpath.upstream.outgoing import Redirects, Schedule
from proxy.hotpath.upstream.pipeline_listener import PipelineListener
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline, bit_of
from proxy.session.ports.client_identity import UNNAMED
from proxy.session.ports.pool_key import PoolKey


class KeyedPipeline(UpstreamPipeline):
    """``key`` is what it is logged in and set to. Once it is ``retiring``, it takes no more commands. ``followed`` is
    called after each change of the one or the other."""

    __slots__ = ("_key", "followed", "retiring")

    def __init__(
        self,
        listener: PipelineListener,
        schedule: Schedule,
        key: PoolKey,
        errors: ErrorCounts | None = None,
        redirects: Redirects | None = None,
    ) -> None:
        super().__init__(listener, schedule, errors, redirects)
        self.retiring = False
        self.followed: Callable[[KeyedPipeline], None] | None = None
        self.node_bit = bit_of(key.node.number)
        self._key = key

    @property
    def key(self) -> PoolKey:
        """Its login, database and protocol."""
        return self._key

    @key.setter
    def key(self, key: PoolKey) -> None:
        self._key = key
        self._changed()

    def retire(self) -> None:
        """It takes no more commands."""
        self.retiring = True
        self.usable = False
        self._changed()

    def _changed(self) -> None:
        if self.followed is not None:
            self.followed(self)


class PrivatePipeline(KeyedPipeline):
    """An upstream that can be handed to one client. ``names`` is what CLIENT LIST shows of it."""

    __slots__ = ("names",)

    def __init__(
        self,
        listener: PipelineListener,
        schedule: Schedule,
        key: PoolKey,
        errors: ErrorCounts | None = None,
        redirects: Redirects | None = None,
    ) -> None:
        super().__init__(listener, schedule, key, errors, redirects)
        self.names = UNNAMED
