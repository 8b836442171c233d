"""The policies that come with Keyrail: the paths of their files, and how errors show them."""

from pathlib import Path

from proxy.policy_yaml.misspelt import did_you_mean

_PROXY = Path(__file__).resolve().parents[1]
_FOLDERS = (_PROXY / "policy/packaged", _PROXY.parent / "policies")
"""In the package if Keyrail is installed, else in the source tree."""
_SHOWN = "packaged/"


def packaged(name: str) -> Path:
    """The file of the packaged policy `name` (``default``, ``tour.yaml``). Raises FileNotFoundError."""
    file = name if name.endswith(".yaml") else f"{name}.yaml"
    for folder in _FOLDERS:
        if (folder / file).is_file():
            return folder / file
    raise FileNotFoundError(f"no packaged policy {name}")


def packaged_names() -> list[str]:
    """The names of all packaged policies."""
    return sorted({file.stem for folder in _FOLDERS if folder.is_dir() for file in folder.glob("*.yaml")})


def expected_policy(path: Path) -> str:
    """The expected value in place of a missing policy file: without a suffix, it is the name of a packaged policy."""
    if path.suffix:
        return "a YAML file"
    names = packaged_names()
    return f"a YAML file, or a packaged policy: {', '.join(names)}{did_you_mean(path.name, names)}"


def shown_file(file: str) -> str:
    """A file as errors show it: for a packaged policy, without the path of the Python package."""
    for folder in _FOLDERS:
        if file.startswith(f"{folder}/"):
            return _SHOWN + file.removeprefix(f"{folder}/")
    return file
