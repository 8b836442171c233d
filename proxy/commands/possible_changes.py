"""Whether bytes of a client hold a command that could change something.

What could not is harmless however late it runs: a client may have given it up, and have written anew elsewhere.
"""

from proxy.commands.table import STANDARD
from proxy.wire.inline import split_inline
from proxy.wire.request import COMPLETE, EMPTY, INLINE, NEED_MORE, Request, RequestLimits

_OF_THE_CONNECTION = frozenset(
    {
        "AUTH",
        "CLIENT|CACHING",
        "CLIENT|CAPA",
        "CLIENT|GETNAME",
        "CLIENT|GETREDIR",
        "CLIENT|ID",
        "CLIENT|INFO",
        "CLIENT|NO-EVICT",
        "CLIENT|NO-TOUCH",
        "CLIENT|SETINFO",
        "CLIENT|SETNAME",
        "CLIENT|TRACKING",
        "CLIENT|TRACKINGINFO",
        "COMMAND",
        "HELLO",
        "PSUBSCRIBE",
        "QUIT",
        "RESET",
        "SSUBSCRIBE",
        "SUBSCRIBE",
    }
)
"""Commands that change nothing but the connection that they come on. Those of transactions are missing, since what they
run may have come before."""


_MOST = 1 << 30
_LIMITS = RequestLimits(arguments=1 << 20, bulk=_MOST, large=_MOST)


def may_change(data: bytes) -> bool:
    """Whether a command that begins in ``data`` could change something.

    Unknown commands could, and bytes that are no command. So could a command that is not whole: the kernel of a client
    that has left goes on to send the rest.
    """
    request = Request()
    while True:
        code = request.scan(data, request.end, _LIMITS)
        if code == COMPLETE:
            words = request.arguments()
        elif code == INLINE:
            words = split_inline(data[request.start : request.end - 1]) or []
        elif code == EMPTY:
            continue
        elif code == NEED_MORE:
            return request.argc > 0 and not _harmless(request.arguments())
        else:
            return True
        if words and not _harmless(words):
            return True


def _harmless(words: list[bytes]) -> bool:
    spec = STANDARD.spec_of(words)
    return spec.only_reads or spec.name in _OF_THE_CONNECTION
