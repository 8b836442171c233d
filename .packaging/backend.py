"""The build backend: setuptools, in a clean copy of the tree, with the hot modules compiled if they can be.

A module is hot when a ``.pxd`` stands beside it: it is plain Python, and the ``.pxd`` adds the C types. A wheel has
either all of them compiled or none. Without a C compiler or Python's headers, or with ``KEYRAIL_PLAIN=1`` in the
environment, the wheel is a plain one that works on every machine; with ``KEYRAIL_PLAIN=0`` a build that cannot compile
fails instead.

Nothing is ever built in the source tree: what an earlier build left there (``build/``, ``*.so``) cannot reach a
package, and source trees, editable installs included, always run plain.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from Cython.Build import cythonize
from setuptools import Distribution, Extension, build_meta
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.errors import BaseError, CCompilerError

SHIPPED = (
    ".ci",
    ".dockerignore",
    ".editorconfig",
    ".github",
    ".gitignore",
    ".packaging",
    ".pre-commit-config.yaml",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Dockerfile",
    "README.md",
    "SECURITY.md",
    "deploy",
    "docs",
    "loadtest",
    "policies",
    "proxy",
    "pyproject.toml",
    "tests",
)
LEFTOVERS = shutil.ignore_patterns("__pycache__", "*.so", "*.pyd", "*.c", "*.egg-info", ".*_cache", ".hypothesis")
PROBE = "#include <Python.h>\n"  # translating the hot modules to C takes a while: find out first if that is of use

Settings = Mapping[str, "str | list[str] | None"]

build_editable = build_meta.build_editable


class Wheel(bdist_wheel):
    """A wheel for this platform if it holds compiled modules, for every platform if not."""

    def finalize_options(self) -> None:
        """Tell setuptools that there is machine code: it has not compiled it itself, so it cannot know."""
        if any(Path("proxy").rglob("*.so")):
            distribution: Any = self.distribution
            distribution.has_ext_modules = lambda: True
        super().finalize_options()


def build_wheel(wheel_directory: str, config_settings: Settings | None = None, metadata: str | None = None) -> str:
    """Build a wheel, compiled where that is possible, and return its file name."""
    target = str(Path(wheel_directory).resolve())
    with clean_copy():
        bring_policies()
        compile_hot_modules()
        return str(build_meta.build_wheel(target, config_settings, metadata))


def build_sdist(sdist_directory: str, config_settings: Settings | None = None) -> str:
    """Build a source distribution that holds all that the tests and another build need, and return its file name."""
    target = str(Path(sdist_directory).resolve())
    with clean_copy():
        lines = [f"graft {name}" if Path(name).is_dir() else f"include {name}" for name in SHIPPED]
        Path("MANIFEST.in").write_text("\n".join(lines) + "\n")
        return str(build_meta.build_sdist(target, config_settings))


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings | None = None) -> str:
    """Write the ``.dist-info`` folder that a wheel would have, and return its name."""
    target = str(Path(metadata_directory).resolve())
    with clean_copy():
        return str(build_meta.prepare_metadata_for_build_wheel(target, config_settings))


@contextlib.contextmanager
def clean_copy() -> Iterator[None]:
    """Work in a copy of the source tree that holds what is shipped and nothing else."""
    source = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="keyrail-build-") as folder, contextlib.chdir(folder):
        for name in SHIPPED:
            if (source / name).is_dir():
                shutil.copytree(source / name, name, ignore=LEFTOVERS)
            elif (source / name).exists():
                shutil.copy2(source / name, name)
        yield


def bring_policies() -> None:
    """Put the policies into the package: an installed Keyrail has no source tree to find them in."""
    packaged = Path("proxy/policy/packaged")
    packaged.mkdir(parents=True, exist_ok=True)
    for policy in Path("policies").glob("*.yaml"):
        shutil.copy2(policy, packaged)


def compile_hot_modules() -> None:
    """Compile every module that has a ``.pxd`` beside it, each beside its source; all of them or none.

    Raises the compiler's error if ``KEYRAIL_PLAIN`` is 0. A module that is no valid Cython is always an error.
    """
    wish = os.environ.get("KEYRAIL_PLAIN", "")
    if wish not in {"", "0", "1"}:
        raise SystemExit(f"KEYRAIL_PLAIN={wish}: expected 1 (never compile), 0 (compile or fail), or nothing")
    if wish == "1":
        return
    try:
        Path("probe.c").write_text(PROBE)
        compile_in_place([Extension("probe", ["probe.c"])])
        compile_in_place(translated_to_c(hot_modules()))
    except (BaseError, CCompilerError, OSError) as problem:
        if wish == "0":
            raise
        print(f"keyrail: not compiled, so it will run plain, and slower: {problem}", file=sys.stderr)
        for made in Path("proxy").rglob("*.so"):
            made.unlink()


COMPILER_OPTIONS = ["-O3", "-g0", "-falign-functions=64", "-falign-loops=32"]
"""Where a loop begins is worth a third of its speed, and any line of code before it moves it."""


def hot_modules() -> list[Extension]:
    """Name each hot module and its source."""
    sources = [types.with_suffix(".py") for types in sorted(Path("proxy").rglob("*.pxd"))]
    return [
        Extension(".".join(source.with_suffix("").parts), [str(source)], extra_compile_args=COMPILER_OPTIONS)
        for source in sources
    ]


def translated_to_c(modules: list[Extension]) -> list[Extension]:
    """Translate them by one process for each CPU, or in this one where the system has no processes that share locks."""
    options: dict[str, Any] = {"build_dir": "generated", "language_level": 3, "quiet": True}
    try:
        return list(cythonize(modules, nthreads=os.cpu_count() or 1, **options))
    except (ImportError, NotImplementedError, PermissionError):
        return list(cythonize(modules, **options))


def compile_in_place(extensions: list[Extension]) -> None:
    """Compile extensions to machine code that lies where Python looks for it. Raises the compiler's error."""
    command = Distribution({"name": "keyrail", "ext_modules": extensions}).get_command_obj("build_ext")
    command.inplace = True
    command.parallel = os.cpu_count()
    command.build_lib = command.build_temp = "generated"  # not build/, which setuptools puts into wheels too
    command.ensure_finalized()
    command.run()
