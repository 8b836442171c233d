# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""Reads of a hot key that stand one behind the other in a client's bytes, each the same request.

What is decided about one holds for those behind it: nothing that decides changes between them. So they are compared
with it, counted and answered from memory together, which costs a fraction of reading each.
"""

from proxy.hotpath.cache.cached_reads import CachedReads
from proxy.hotpath.cache.cached_reply import CachedReply
from proxy.hotpath.counting.call_counts import CallCounts
from proxy.hotpath.intake.command_sender import CommandSender
from proxy.hotpath.intake.open_run import OpenRun
from proxy.hotpath.plan.hot_path_config import HotPathConfig

_MOST_ANSWERED = 65536
MOST_ANSWERED = _MOST_ANSWERED
"""Bytes of answers from memory that gather before they leave."""

_WORD = 8
_INTERPRETED = __file__.endswith((".py", ".pyc"))


class RepeatedReads:
    """Answers them; it holds nothing."""

    def answer(
        self,
        config: HotPathConfig,
        run: OpenRun,
        sender: CommandSender,
        calls: CallCounts,
        reads: CachedReads,
        hit: CachedReply,
        command_id: int,
        data: bytes,
        p: bytes,
        payload: bytes,
    ) -> int:
        """Answer the commands behind the one that ``request`` holds and ``payload`` has answered, which is of ``hit``,
        as many as are the same and may be answered like it: none that is traced or limited. Returns how many."""
        plan, request = config.plan, config.request
        if plan.spends or run.reads is not None or sender.pending_replies > 0:
            return 0
        size = request.end - request.start
        most = min((len(data) - request.end) // size, config.sampler.left - 1)
        most = min(most, (_MOST_ANSWERED - run.answered) // len(payload))
        times = 0
        end = request.end
        while times < most and _is_same(p, request.start, end, size):
            times += 1
            end += size
        if times == 0:
            return 0
        config.sampler.left -= times
        calls.numbers[command_id] += times
        if plan.counts_keys(command_id):
            plan.count(request, p, config.keys, plan.found, config.counters)
            config.counters.repeat(times - 1)
        reads.count(hit, times, len(payload))
        sender.out.append(payload * times)
        sender.remembered += times
        run.answered += times * len(payload)
        run.leave(sender, data, p, end)
        return times


def _is_same(p: bytes, start: int, at: int, size: int) -> bool:
    if _INTERPRETED:
        return p[start : start + size] == p[at : at + size]
    # Backwards, as names of keys differ at their ends.
    left = size
    while left >= _WORD:
        left -= _WORD
        if _word(p, start + left) != _word(p, at + left):
            return False
    while left > 0:
        left -= 1
        if p[start + left] != p[at + left]:
            return False
    return True


def _word(p: bytes, i: int) -> int:
    # A compiler makes one load of it.
    value = p[i]
    value = (value << 8) | p[i + 1]
    value = (value << 8) | p[i + 2]
    value = (value << 8) | p[i + 3]
    value = (value << 8) | p[i + 4]
    value = (value << 8) | p[i + 5]
    value = (value << 8) | p[i + 6]
    return (value << 8) | p[i + 7]
