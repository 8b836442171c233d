"""Dictionaries for tests: two for JSON, of different values."""

from __future__ import annotations

import random
from functools import cache

from proxy.compression.dictionaries import Dictionary, trained
from tests.compression.histories import json_of


@cache
def json_dictionary(seed: int = 1) -> Dictionary:
    """One for values as ``json_of`` makes them."""
    r = random.Random(seed)
    return trained([json_of(r, r.randrange(400, 4000)) for _ in range(300)])
