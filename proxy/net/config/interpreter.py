"""How Keyrail starts processes of its own: with the same Python and the same copy of this package."""

import os
import sys
from pathlib import Path

_PACKAGE_PARENT = Path(__file__).resolve().parent.parent.parent


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a module of this package; the current folder is not searched for it."""
    return [sys.executable, "-P", "-m", module, *arguments]


def module_environment() -> dict[str, str]:
    """Return the environment in which that command line finds this very package."""
    inherited = os.environ.get("PYTHONPATH")
    path = str(_PACKAGE_PARENT) if not inherited else f"{_PACKAGE_PARENT}{os.pathsep}{inherited}"
    return os.environ | {"PYTHONPATH": path}
