"""`.ci/release` refuses each state that must not be released, and says what it cannot build on this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy import __version__

pytestmark = [pytest.mark.source, pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed here")]
PROJECT = Path(__file__).parents[2]
CHANGES = """# Changes

## Unreleased

## 1.2.0 - 2027-01-31

### Added
- One thing.

## 1.1.0 - 2026-01-31

- More.
"""
INTERPRETERS = ("python3.11", "python3.12", "python3.13", "python3.14")


class Clone:
    """A small repository with a release that is ready, and a PATH without interpreters and builders."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.programs = folder / "clone", folder / "bin"
        self.programs.mkdir()
        for name in ("bash", "dirname", "git"):
            (self.programs / name).symlink_to(str(shutil.which(name)))
        self.program("python3", f'exec {sys.executable} "$@"')
        self.write("proxy/__init__.py", '__version__ = "1.2.0"\n')
        self.write("CHANGELOG.md", CHANGES)
        self.write(".gitignore", "dist/\n")
        for name in (".ci/release", ".packaging/release.py"):
            (self.folder / name).parent.mkdir()
            shutil.copy(PROJECT / name, self.folder / name)
        self.git("init", "--quiet")
        self.commit()
        self.git("tag", "v1.2.0")

    def program(self, name: str, text: str) -> None:
        (self.programs / name).write_text(f"#!{shutil.which('sh')}\n{text}\n")
        (self.programs / name).chmod(0o755)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def git(self, *arguments: str) -> None:
        author = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *author, *arguments], cwd=self.folder, check=True)

    def commit(self) -> None:
        self.git("add", ".")
        self.git("commit", "--quiet", "--message", "a commit")

    def change(self, name: str, text: str) -> None:
        """Commit another text, and move the tag there."""
        self.write(name, text)
        self.commit()
        self.git("tag", "--force", "v1.2.0")

    def release(self, *options: str) -> tuple[int, str]:
        ended = subprocess.run(
            [".ci/release", *options],
            cwd=self.folder,
            env={"PATH": str(self.programs), "HOME": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        return ended.returncode, ended.stdout + ended.stderr


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def with_everything(clone: Clone) -> None:
    """Stubs that look as if everything could be built."""
    for name in INTERPRETERS:
        clone.program(name, "true")
    clone.program("podman", "true")


def edited(old: str, new: str) -> Callable[[Clone], None]:
    assert old in CHANGES
    return lambda clone: clone.change("CHANGELOG.md", CHANGES.replace(old, new, 1))


WRONG: dict[str, tuple[Callable[[Clone], object], str]] = {
    "a changed file": (lambda clone: clone.write("CHANGELOG.md", CHANGES + "- x\n"), "CHANGELOG.md"),
    "a new file": (lambda clone: clone.write("new.py", ""), "?? new.py"),
    "a file in dist/": (lambda clone: clone.write("dist/old.whl", ""), "dist/ is not empty"),
    "no tag": (lambda clone: clone.git("tag", "--delete", "v1.2.0"), "must have the tag v1.2.0 and no other version's"),
    "another version's tag": (lambda clone: clone.git("tag", "v1.3.0"), "it has v1.2.0, v1.3.0"),
    "a tag on an older commit": (
        lambda clone: clone.git("commit", "--allow-empty", "--quiet", "-m", "x"),
        "it has none",
    ),
    "another version": (lambda clone: clone.change("proxy/__init__.py", '__version__ = "1.2.1"\n'), "the tag v1.2.1"),
    "no version": (lambda clone: clone.change("proxy/__init__.py", ""), "__version__ is ''"),
    "a wrong version": (lambda clone: clone.change("proxy/__init__.py", '__version__ = "1.2.dev0"\n'), "1.2.dev0"),
    "a section of another version": (edited("## 1.2.0 -", "## 1.3.0 -"), 'top section is "1.3.0 - 2027-01-31"'),
    "a section without a date": (edited(" - 2027-01-31", ""), 'expected "1.2.0 - YYYY-MM-DD"'),
    "a section without changes": (edited("\n### Added\n- One thing.\n", ""), '"1.2.0 - 2027-01-31" lists no change'),
    "changes that are in no version": (edited("## Unreleased\n", "## Unreleased\n- x\n"), '"Unreleased" has changes'),
    "no section": (lambda clone: clone.change("CHANGELOG.md", "# Changes\n"), 'the top section is ""'),
    "no repository": (lambda clone: shutil.rmtree(clone.folder / ".git"), "no Git repository"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_state_is_refused_before_anything_is_built(clone: Clone, wrong: str) -> None:
    with_everything(clone)
    change, told = WRONG[wrong]
    change(clone)
    status, text = clone.release()
    assert status == 1
    assert told in text
    assert "==" not in text  # no step was begun


def test_what_is_ready_passes(clone: Clone) -> None:
    with_everything(clone)
    assert clone.release("--check", "--complete") == (0, "")


def test_what_cannot_be_built_is_listed_with_the_reason(clone: Clone) -> None:
    with_everything(clone)
    clone.program("podman", "exit 1")  # installed, and its service does not run
    clone.program("python3.12", "exit 127")  # as a shim of pyenv
    clone.program("python3.13", "echo it has no Python.h")
    (clone.programs / "python3.14").unlink()
    missing = [
        "the wheel for python3.12: it does not start",
        "the wheel for python3.13: it has no Python.h",
        "the wheel for python3.14: it is not installed",
        "the image: none of docker, podman, buildah is installed and running",
    ]
    assert clone.release("--check") == (3, "".join(f"release: left out: {each}\n" for each in missing))
    status, text = clone.release("--complete")
    assert status == 1
    assert text == "".join(f"release: --complete, but this machine cannot build {each}\n" for each in missing)


def test_a_build_that_fails_leaves_nothing_behind(clone: Clone) -> None:
    with_everything(clone)
    status, text = clone.release()  # the small repository has no pyproject.toml with tools
    assert status == 1, text
    assert not (clone.folder / "dist").exists()


@pytest.mark.long
@pytest.mark.timeout(1800)  # it compiles the program
def test_a_release_is_built(tmp_path: Path) -> None:
    """The real thing, with the interpreter of this test."""
    clone = Clone(tmp_path)
    ignored = shutil.ignore_patterns(".git", ".venv", ".*_cache", ".hypothesis", "__pycache__", "dist")
    shutil.copytree(PROJECT, clone.folder, ignore=ignored, dirs_exist_ok=True)
    clone.write("deploy/compose/secrets/password", "secret")
    changes = f"# Changes\n\n## {__version__} - 2027-01-31\n\n- One thing.\n"
    clone.change("CHANGELOG.md", changes)
    clone.git("tag", "--delete", "v1.2.0")
    clone.git("tag", f"v{__version__}")
    python = "python{}.{}".format(*sys.version_info)
    for name in ("python3", python):  # that of an environment has no pip
        clone.program(name, f'exec {sys.base_prefix}/bin/{python} "$@"')
    environment = {**os.environ, "PATH": f"{clone.programs}:/usr/bin:/bin"}
    ended = subprocess.run(
        [".ci/release"], cwd=clone.folder, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode in {0, 3}, ended.stdout + ended.stderr
    assert f"keyrail {__version__} (compiled)" in ended.stdout
    assert f"left out: the wheel for {python}" not in ended.stdout
    made = {path.name: path for path in (clone.folder / "dist").iterdir()}
    bill = json.loads(made[f"keyrail-{__version__}.cdx.json"].read_text())
    assert bill["metadata"]["component"]["version"] == __version__
    assert {"hiredis", "uvloop"} <= {each["name"] for each in bill["components"]}
    with tarfile.open(made[f"keyrail-{__version__}.tar.gz"]) as files:
        assert not [name for name in files.getnames() if "secrets/" in name]
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=clone.folder / "dist", check=True)
