"""Misspelt words: the known word that is most like an unknown one."""

import difflib
from collections.abc import Iterable

_ALIKE = 0.75
"""The likeness, from 0 to 1, from which a word counts as a misspelling of a known one."""

_SYNONYMS = {
    **dict.fromkeys(("block", "blocked", "deny", "denied", "disallow", "forbid", "forbidden", "reject"), "refuse"),
    **dict.fromkeys(("allowed", "allowlist", "whitelist", "permit"), "allow_only"),
    **dict.fromkeys(("rewrite", "rename", "alias"), "replace"),
    **dict.fromkeys(("ttl", "expire", "expires", "expiry", "expiration"), "lifetime"),
    **dict.fromkeys(("rate_limit", "ratelimit", "throttle"), "limits"),
    **dict.fromkeys(("quotas", "storage"), "quota"),
    **dict.fromkeys(("naming", "key_names", "pattern", "prefix", "prefixes"), "names"),
    **dict.fromkeys(("max_size", "size_limit"), "sizes"),
    **dict.fromkeys(("cache", "caching"), "local_cache"),
    **dict.fromkeys(("circuit_breaker",), "breaker"),
    **dict.fromkeys(("lua", "eval"), "scripts"),
    **dict.fromkeys(("description", "reason", "why"), "because"),
    **dict.fromkeys(("message", "hint", "advice"), "instead"),
    **dict.fromkeys(("owner", "team_contact"), "contact"),
    **dict.fromkeys(("action", "enforcement", "level"), "mode"),
}
"""Words that other programs use, and what policies call it."""


def meant_by(word: str, known: Iterable[str], alike: float = _ALIKE) -> str | None:
    """The known word that means the same, or is most like this one; None if there is none."""
    if (synonym := _SYNONYMS.get(word)) is not None and synonym in (known := [*known]):
        return synonym
    close = difflib.get_close_matches(word, [*known], 1, alike)
    return close[0] if close else None


def did_you_mean(word: str, known: Iterable[str], alike: float = _ALIKE) -> str:
    """The end of an error about an unknown word: a suggestion, or empty."""
    meant = meant_by(word, known, alike)
    return "" if meant is None else f"; did you mean {meant}?"
