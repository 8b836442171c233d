"""Commands as policies name them: ``FLUSHALL``, ``CONFIG SET``, in any letter case."""

import difflib

from proxy.commands.table import STANDARD, Spec
from proxy.policy.yaml_source import Problems, Scalar


def read_command(scalar: Scalar, problems: Problems) -> Spec | None:
    """A command of the standard table, named as people write it; a near miss is suggested."""
    spec = STANDARD.find(scalar.text)
    if spec is None:
        names = [each.display for each in STANDARD.specs[1:]]
        close = difflib.get_close_matches(scalar.text.upper(), names, 1)
        problems.unexpected(scalar, f"a command; did you mean {close[0]}?" if close else "a command")
    return spec
