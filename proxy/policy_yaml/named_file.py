"""Reads a file that a policy names: it is below the folder of the policy's file."""

from pathlib import Path

from proxy.policy_yaml.errors import shown
from proxy.policy_yaml.regular_file import read_regular
from proxy.policy_yaml.yaml_source import Problems, Scalar


def read_named_file(scalar: Scalar, most: int, expected: str, problems: Problems) -> tuple[bytes, str] | None:
    """The content, of at most `most` bytes, and the path; None if there is none, and a problem is noted."""
    folder = Path(scalar.where.file).parent
    try:
        file = folder / scalar.text
        # Links within the folder are followed: Kubernetes mounts the files of a ConfigMap as links.
        real = file.resolve(strict=True)
        if not real.is_relative_to(folder.resolve()) or not real.is_file() or real.stat().st_size > most:
            problems.unexpected(scalar, expected)
            return None
        return read_regular(real, most), str(file)
    except (OSError, ValueError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        problems.add(scalar.where, scalar.path, f"{shown(scalar.text)} ({reason})", expected)
        return None
