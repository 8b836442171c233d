"""The local cache of a remedy: one key."""

from proxy.rules.local_cache.rule import LocalCacheSettings, When
from proxy.rules.one_key import OneKey

_MEMORY = 16 << 20
_MAX_VALUE = 1 << 20


def key_cache(key: OneKey) -> LocalCacheSettings:
    """Reads of this key are answered from memory, whether or not it is hot."""
    return LocalCacheSettings((), When.ALWAYS, max_value=_MAX_VALUE, memory=_MEMORY, key=key)
