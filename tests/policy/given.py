"""Policies as the tests write them: the text of a file, with the line that every file needs put in front."""

from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent

from proxy.commands.table import STANDARD
from proxy.policy.compile import CompiledPolicy, compile_policy
from proxy.policy.load import load_policy
from proxy.policy.model import Policy


def policy(text: str) -> Policy:
    """The policy that a file with these lines holds; raises PolicyError as loading does."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "policy.yaml")
        file.write_text("keyrail: 1\n" + dedent(text), encoding="utf-8")
        return load_policy(file)


def compiled(text: str, available: frozenset[str] | None = None, seed: int = 7) -> CompiledPolicy:
    """The same, bound to the standard table."""
    return compile_policy(policy(text), STANDARD, available, seed)
