"""Prometheus metrics about rules that compress values. Rules in audit count what they would have compressed.

keyrail_compressed_values_total{route,rule}             values that were compressed
keyrail_compressed_plain_bytes_total{route,rule}        their bytes before
keyrail_compressed_stored_bytes_total{route,rule}       their bytes as they are stored
keyrail_incompressible_values_total{route,rule}         values that were tried, of which that saves less than a tenth
keyrail_compress_cpu_seconds_total{route,rule}          processor time for both
keyrail_decompressed_values_total{route,rule}           values that were decompressed for clients
keyrail_decompressed_plain_bytes_total{route,rule}      their bytes as clients got them
keyrail_decompressed_stored_bytes_total{route,rule}     their bytes as they are stored
keyrail_decompress_cpu_seconds_total{route,rule}        processor time for that
"""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric

from proxy.server.figures import RouteFigures

_COUNTERS = (
    ("keyrail_compressed_values", "Values that were compressed, or would have been (mode audit).", "values"),
    ("keyrail_compressed_plain_bytes", "Bytes of these values before.", "plain_bytes"),
    ("keyrail_compressed_stored_bytes", "Bytes of these values as they are stored.", "stored_bytes"),
    ("keyrail_incompressible_values", "Values of which compressing saves less than a tenth.", "as_they_are"),
    ("keyrail_compress_cpu_seconds", "Processor time for trying to compress values.", "seconds"),
    ("keyrail_decompressed_values", "Values that were decompressed for clients.", "decompressed_values"),
    ("keyrail_decompressed_plain_bytes", "Bytes of these values as clients got them.", "decompressed_plain_bytes"),
    ("keyrail_decompressed_stored_bytes", "Bytes of these values as stored.", "decompressed_stored_bytes"),
    ("keyrail_decompress_cpu_seconds", "Processor time for decompressing values.", "decompressed_seconds"),
)


def collect_compressed(routes: list[RouteFigures]) -> Iterator[Metric]:
    """Nothing of rules that have compressed and decompressed nothing."""
    for name, text, figure in _COUNTERS:
        counter = CounterMetricFamily(name, text, labels=("route", "rule"))
        for route in routes:
            for rule, its in route.counters.get("compressed", {}).items():
                counter.add_metric((route.name, rule), its[figure])
        yield counter
