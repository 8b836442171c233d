"""Whether this Keyrail runs compiled or plain: the same modules, either as machine code or as Python.

The modules in question are those with a ``.pxd`` beside them. They come all compiled (a wheel built where there is a C
compiler) or all plain (a source tree, or a wheel built without one). A mixture would be neither tested nor measured by
anyone, so it is an error: it means that files of two builds lie in one folder.
"""

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final, Literal

BuildForm = Literal["compiled", "plain"]


def build_form_of(package: Path) -> BuildForm:
    """Say which form the package in this folder has.

    Raises ImportError for a mixture, naming the modules that differ.
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
    """Whether Python, which looks for machine code before it looks for source, would find some for this module."""
    return any(module.with_name(module.name + suffix).exists() for suffix in EXTENSION_SUFFIXES)


BUILD_FORM: Final[BuildForm] = build_form_of(Path(__file__).parent)
