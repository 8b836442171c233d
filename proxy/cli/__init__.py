"""The command line: `keyrail VERB …`. Each verb has a module.

verbs.py        all verbs and their options
serve.py        run the proxy
init/           ask five questions and write a first policy
check.py        validate policies and run their tests
doctor/         examine a Redis and a policy before any traffic
explain.py      show the effect of a policy on a command
acl.py          print the ACL users of Redis that back a policy up
acl_prove.py    ask a private engine whether these users are as wide as the policy
learn.py        write a policy from what clients have sent
policy.py       print the JSON Schema of policies
schema.py       print the keys that a policy knows, as Markdown or as JSON Schema
kill_switch.py  suspend all enforcement in a running proxy for a while
incidents.py    list incidents
remedy.py       limit one key for one app for a while
report.py       what enforced rules would break, for whom, and whom to ask
report_text.py  a report as text and as Markdown
ready.py        whether a rule can be enforced, from evidence
diff.py         what another policy would change for recorded commands
diff_text.py    a difference as text, as Markdown and as JSON
text_forms.py   names that others have chosen, in text and in Markdown
scan.py         what is stored in a Redis, judged by a policy
scan_fail_on.py  whether a scan has more faults than --fail-on allows
scan_output.py  where the result of a scan goes
scan_text.py    a scan as text, and how far it is
scan_results.py  where the result of a scan goes besides the terminal
growth_text.py  what grew between scans, as text and as JSON
scan_html.py    a scan as one HTML file, by the template scan.html
purge.py        delete stored keys by pattern, owner and idle time
expire.py       give stored keys without a TTL that of the policy, and take it back
tenants.py      moves stored keys behind the prefix of a tenant, and back
transform.py    rewrites stored values as the compress rules of a policy say, and back
transform_text.py  what was rewritten as text and as JSON
train_dictionary.py  make a dictionary of stored values for a rule that compresses
changing.py     what the verbs share that change stored keys
change_text.py  what was done with stored keys as text
walk.py         what the verbs share that walk all stored keys
report_html.py  a report as one HTML file, by the template report.html
html_file.py    such a file, by html_head.html, html_parts.html and the template
top/            watch a running proxy, like `top`
admin_port.py   the HTTP client for a running proxy's admin port
evidence_source.py  where verbs take their evidence from
line.py         an argument parser whose errors are one line
tour.py         the text that `serve --embedded` prints
"""

import gc
import os
import sys
from collections.abc import Sequence

from proxy.server.worker_start import dismiss_rest, start_ahead

_CUT_SHORT, _INTERRUPTED = 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return its exit status: 0, 1 for a failure, 2 for a mistake in the command line,
    130 for Ctrl-C.
    """
    given = sys.argv[1:] if arguments is None else arguments
    try:
        if given[:1] == ["serve"]:
            start_ahead()  # what takes longest in its start goes on while this process imports and opens the rest
        gc.disable()  # what is imported stays
        from proxy.cli.verbs import parse  # noqa: PLC0415  inside the try: Ctrl-C may come during this long import

        parsed = parse(given)
        gc.enable()
        status = parsed.verb(parsed.options)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output, such as `head`, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it when it ends
        return _CUT_SHORT
    except KeyboardInterrupt:  # Ctrl-C before the verb handles it itself, such as while `serve` imports its modules
        return _INTERRUPTED
    finally:
        dismiss_rest()
    return status
