"""The numbers that INFO has about what a server stores."""

import re
from collections.abc import Mapping

from proxy.wire.numbers import read_digits

FIELDS = (
    *("used_memory", "used_memory_dataset", "used_memory_rss", "maxmemory", "mem_fragmentation_ratio"),
    *("total_system_memory", "evicted_keys", "expired_keys"),
)
_NUMBER = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,9})?")


def read_info(text: bytes) -> dict[str, str]:
    """The fields of INFO."""
    pairs = (line.partition(":") for line in text.decode("utf-8", "replace").splitlines())
    return {name: value for name, colon, value in pairs if colon}


def figures_of(info: Mapping[str, str]) -> dict[str, float]:
    """``FIELDS``, as far as it has them, and of all databases ``total_keys``, ``total_expires`` (keys with a TTL) and
    their ``average_ttl`` in milliseconds, which Redis estimates."""
    found = {name: float(info[name]) for name in FIELDS if _NUMBER.fullmatch(info.get(name, ""))}
    databases = [value for name, value in info.items() if name.startswith("db") and read_digits(name[2:]) is not None]
    keys = expires = ttls = 0
    for each in databases:
        its = {name: read_digits(value) or 0 for name, _, value in (pair.partition("=") for pair in each.split(","))}
        keys += its.get("keys", 0)
        expires += its.get("expires", 0)
        ttls += its.get("expires", 0) * its.get("avg_ttl", 0)
    return found | {"total_keys": keys, "total_expires": expires, "average_ttl": ttls / expires if expires else 0.0}
