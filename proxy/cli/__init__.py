"""The command line: `keyrail VERB …`; each verb has a module of its own.

verbs.py        all verbs and their options
serve.py        run the proxy
check.py        validate policies and run their tests
explain.py      show what a policy does with a command
policy.py       the JSON Schema of policies
schema.py       the keys that a policy knows, as Markdown
kill_switch.py  all enforcement of a running proxy off for a while
incidents.py    what somebody should be woken for
remedy.py       one key capped for one app, for a while
top/            what goes through a running proxy, like `top`
admin_port.py   a running proxy asked over its admin port
line.py         parsing that fails with one line
tour.py         what `serve --embedded` suggests to try
"""

import os
import sys
from collections.abc import Sequence

_CUT_SHORT, _INTERRUPTED = 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return its exit status: 0, 1 for a failure, 2 for a mistake in what was asked for,
    130 for Ctrl-C.
    """
    try:
        # Here, and not on top: a Ctrl-C while this imports half of Keyrail is a Ctrl-C like any other.
        from proxy.cli.verbs import parse  # noqa: PLC0415

        parsed = parse(arguments)
        status = parsed.verb(parsed.options)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads what is printed, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python still writes as it ends
        return _CUT_SHORT
    except KeyboardInterrupt:  # Ctrl-C before the verb heeds it by itself, such as while `serve` imports what it needs
        return _INTERRUPTED
    return status
