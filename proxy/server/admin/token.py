"""The token of the admin port."""

from pathlib import Path

from proxy.policy_yaml.regular_file import read_regular

_SHORTEST = 8


def read_token(file: Path) -> bytes:
    """Return the token in a file, without white space around it. Raises ValueError with the problem."""
    try:
        token = read_regular(file).strip()
    except OSError as error:
        raise ValueError(f"cannot read the admin token in {file}: {error.strerror}") from None
    if len(token) < _SHORTEST:
        raise ValueError(f"the admin token in {file} is shorter than {_SHORTEST} bytes")
    return token
