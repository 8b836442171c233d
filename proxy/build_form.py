"""Tells whether this Keyrail runs compiled or plain: the same modules, either as machine code or as Python.

This is about the modules with a ``.pxd`` beside them. They come all compiled (a wheel built with a C compiler) or all
plain (a source tree, or a wheel built without one). A mixture means that files of two builds lie in one folder. It is
an error: nobody tests or measures a mixture.
"""

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final, Literal

BuildForm = Literal["compiled", "plain"]


def build_form_of(package: Path) -> BuildForm:
    """The form of the package in this folder.

    Raises ImportError for a mixture; the error names the modules that differ.
    """
    hot = [types.with_suffix("") for types in sorted(package.rglob("*.pxd"))]
    plain = [module.relative_to(package) for module in hot if not _has_machine_code(module)]
    if not plain and hot:
        return "compiled"
    if len(plain) == len(hot):
        return "plain"
    names = ", ".join(str(module) for module in plain)
    raise ImportError(f"{package} mixes two builds: it is compiled except for {names}. Install Keyrail anew.")


def _has_machine_code(module: Path) -> bool:
    """Whether Python would load machine code for this module: it looks for machine code before source."""
    return any(module.with_name(module.name + suffix).exists() for suffix in EXTENSION_SUFFIXES)


_PACKAGE = Path(__file__).parent
BUILD_FORM: Final[BuildForm] = build_form_of(_PACKAGE)

SLOWER: Final = (
    "this Keyrail was installed without a C compiler: it runs as plain Python, which takes several times the CPU. "
    "Install gcc and Python's headers, then install Keyrail anew with KEYRAIL_PLAIN=0"
)
"""What an operator is told of a plain installation; pip shows nothing of what a build says."""


def is_plain_installation(form: BuildForm = BUILD_FORM, package: Path = _PACKAGE) -> bool:
    """Whether it was installed as plain Python. A source tree is plain, too, and meant to be."""
    return form == "plain" and not (package.parent / "pyproject.toml").exists()
