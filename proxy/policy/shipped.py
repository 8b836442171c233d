"""The policies that come with Keyrail: where their files are, and how a place in one of them is written."""

from pathlib import Path

_HERE = Path(__file__).resolve().parent
_FOLDERS = (_HERE / "packaged", _HERE.parents[1] / "policies")
"""Beside this module once installed, else in the source tree."""
_SHOWN = "packaged/"


def packaged(name: str) -> Path:
    """The file of the packaged policy `name` (``default``, ``tour.yaml``). Raises FileNotFoundError."""
    file = name if name.endswith(".yaml") else f"{name}.yaml"
    for folder in _FOLDERS:
        if (folder / file).is_file():
            return folder / file
    raise FileNotFoundError(f"no packaged policy {name}")


def shown_file(file: str) -> str:
    """A file as people read it: of a packaged policy not the long way to where Python has it."""
    for folder in _FOLDERS:
        if file.startswith(f"{folder}/"):
            return _SHOWN + file.removeprefix(f"{folder}/")
    return file
