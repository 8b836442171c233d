"""Metrics for readers without the token: without those that name keys or clients."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

_TELLING = frozenset({"key", "pattern", "user", "client_name", "library", "address"})
"""Labels whose values come from clients."""


class AnonymousRegistry(CollectorRegistry):
    """A registry without the metrics that have a label with values from clients."""

    def __init__(self, whole: CollectorRegistry) -> None:
        super().__init__(auto_describe=False)
        self.register(_Rest(whole))


class _Rest(Collector):
    def __init__(self, whole: CollectorRegistry) -> None:
        self._whole = whole

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics without these labels."""
        for metric in self._whole.collect():
            if all(_TELLING.isdisjoint(sample.labels) for sample in metric.samples):
                yield metric
