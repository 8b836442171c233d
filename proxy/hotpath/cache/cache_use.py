# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""What a rule has answered from memory, and what it would have answered if it did not only audit."""


class CacheUse:
    """A rule of the policy in force for some clients; ``bit`` stands for it in replies. ``hits`` and ``hit_bytes``
    count what was sent from memory, ``audited_hits`` and ``audited_bytes`` what would have been. ``ages`` adds up the
    ages of what was sent, in seconds."""

    __slots__ = ("ages", "audited_bytes", "audited_hits", "bit", "hit_bytes", "hits")

    def __init__(self, bit: int) -> None:
        self.bit = bit
        self.hits = 0
        self.hit_bytes = 0
        self.ages = 0.0
        self.audited_hits = 0
        self.audited_bytes = 0
