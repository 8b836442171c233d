"""Build a release: .ci/release runs this in the root of the repository. docs/releasing.md has the procedure.

It builds from the commit, not from the working tree: a file that git ignores, such as a password in deploy/, cannot
reach a package. Nothing is in dist/ before all of it has been built and checked.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

DIST = Path("dist")
INTERPRETERS = ("python3.11", "python3.12", "python3.13", "python3.14")
BUILDERS = ("docker", "podman", "buildah")
DOCKER_FORMAT = {"podman": ["--format", "docker"], "buildah": ["--format", "docker"]}
"""Their own format has no HEALTHCHECK."""
VERSION = re.compile(r'^__version__ = "(.*)"$', re.MULTILINE)
RELEASED = re.compile(r"\d+\.\d+\.\d+")
"""Also a version of a Helm chart, which one of a preview is not (1.2.0rc1)."""
SECTION = re.compile(r"^## (.*)\n((?:(?!## ).*\n?)*)", re.MULTILINE)
UNUSABLE = """
import os, shutil, sysconfig
compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
    print("it has no Python.h")
elif shutil.which(compiler) is None:
    print(f"the compiler {compiler} is not installed")
"""


@dataclass(frozen=True)
class Plan:
    """What can be built on this machine, and what cannot, with the reasons."""

    interpreters: list[str]
    builder: str | None
    left_out: list[str]


def main() -> int:
    """Return the exit status: 0 for a whole release, 1 for an error, 3 if parts were left out."""
    options = argparse.ArgumentParser(prog=".ci/release", description="Build a release of this commit into dist/.")
    options.add_argument("--complete", action="store_true", help="fail if a part cannot be built here")
    options.add_argument("--check", action="store_true", help="build nothing")
    chosen = options.parse_args()
    try:
        version, problems = state()
    except subprocess.CalledProcessError as failed:  # git has said why
        return stopped(failed)
    plan = what_can_be_built()
    if chosen.complete:
        problems += [f"--complete, but this machine cannot build {each}" for each in plan.left_out]
    for problem in problems:
        print(f"release: {problem}", file=sys.stderr)
    if problems:
        return 1
    if not chosen.check:
        try:
            build(version, plan)
        except subprocess.CalledProcessError as failed:
            return stopped(failed)
    for each in plan.left_out:
        print(f"release: left out: {each}")
    return 3 if plan.left_out else 0


def stopped(failed: subprocess.CalledProcessError) -> int:
    """Say which command has failed; return the exit status."""
    print(f"release: failed: {' '.join(map(str, failed.cmd))}", file=sys.stderr)
    return 1


def state() -> tuple[str, list[str]]:
    """The version to release, and everything that must be put right first."""
    found = VERSION.search(Path("proxy/__init__.py").read_text("utf-8"))
    version = found[1] if found else ""
    problems = []
    if not Path(".git").exists():
        return version, ["this is no Git repository; release from a clone"]
    if not RELEASED.fullmatch(version):
        problems.append(f"proxy/__init__.py: __version__ is {version!r}; expected a version such as 1.2.0")
    if changed := git("status", "--porcelain"):
        problems.append(f"the working tree has changes; commit or remove them:\n{changed}")
    problems += changelog_problems(version, Path("CHANGELOG.md").read_text("utf-8"))
    tags = [tag for tag in git("tag", "--points-at", "HEAD").split() if re.match(r"v\d", tag)]
    if tags != [f"v{version}"]:
        have = ", ".join(tags) or "none"
        problems.append(f"this commit must have the tag v{version} and no other version's; it has {have}")
    if DIST.exists() and any(DIST.iterdir()):
        problems.append("dist/ is not empty; move what is in it away")
    return version, problems


def changelog_problems(version: str, text: str) -> list[str]:
    """What is wrong with CHANGELOG.md: the top section must be this version's, but for an empty "Unreleased"."""
    sections = SECTION.findall(text)
    if sections and sections[0][0] == "Unreleased":
        if sections[0][1].strip():
            return [f'CHANGELOG.md: "Unreleased" has changes; move them to "## {version} - YYYY-MM-DD"']
        del sections[0]
    title, body = sections[0] if sections else ("", "")
    if not re.fullmatch(rf"{re.escape(version)} - \d{{4}}-\d\d-\d\d", title):
        return [f'CHANGELOG.md: the top section is "{title}"; expected "{version} - YYYY-MM-DD"']
    return [] if body.strip() else [f'CHANGELOG.md: "{title}" lists no change']


def what_can_be_built() -> Plan:
    """Look for interpreters with which a wheel can be compiled, and for a builder of images."""
    reasons = {python: unusable(python) for python in INTERPRETERS}
    builder = next((name for name in BUILDERS if shutil.which(name) and succeeds(name, "info")), None)
    left_out = [f"the wheel for {python}: {reason}" for python, reason in reasons.items() if reason]
    if builder is None:
        left_out.append(f"the image: none of {', '.join(BUILDERS)} is installed and running")
    return Plan([python for python, reason in reasons.items() if not reason], builder, left_out)


def unusable(python: str) -> str:
    """Why no wheel can be compiled with this interpreter; empty if one can be."""
    if shutil.which(python) is None:
        return "it is not installed"
    asked = subprocess.run([python, "-c", UNUSABLE], capture_output=True, text=True, check=False)
    return "it does not start" if asked.returncode else asked.stdout.strip()


def build(version: str, plan: Plan) -> None:
    """Build and check everything that the plan has. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory(prefix="keyrail-release-") as folder:
        work = Path(folder)
        source, made = work / "source", work / "made"
        made.mkdir()
        export(source)
        os.environ["SOURCE_DATE_EPOCH"] = git("log", "-1", "--format=%ct")
        os.environ["KEYRAIL_PLAIN"] = "0"  # compile or fail
        tools = environment(work / "tools", sys.executable, *tools_of(source))
        step("source distribution")
        run(tools / "bin/python", "-m", "build", "--sdist", "--outdir", made, source)
        for python in plan.interpreters:
            step(f"wheel for {python}")
            wheel = build_wheel(work / python, python, made / f"keyrail-{version}.tar.gz", made)
            check_wheel(work / f"{python}-installed", python, source, wheel, version)
        step("SBOM of the locked dependencies")
        build_sbom(tools, work, source, made / f"keyrail-{version}.cdx.json", version)
        run(tools / "bin/twine", "check", "--strict", *made.glob("*.tar.gz"), *made.glob("*.whl"))
        if plan.builder is not None:
            step(f"image, with {plan.builder}")
            build_image(plan.builder, source, version)
        publish(made)


def export(source: Path) -> None:
    """Write the files of the commit, and no others, to a new folder."""
    archive = source.with_suffix(".tar")
    run("git", "archive", "--format=tar", f"--output={archive}", "HEAD")
    with tarfile.open(archive) as files:
        files.extractall(source, filter="data")


def tools_of(source: Path) -> list[str]:
    """The extra of pyproject.toml that has the tools of a release."""
    project = tomllib.loads((source / "pyproject.toml").read_text("utf-8"))["project"]
    return list(project["optional-dependencies"]["release"])


def environment(folder: Path, python: str, *requirements: str | Path) -> Path:
    """Make a virtual environment and install into it."""
    run(python, "-m", "venv", "--without-pip", folder)
    pip(folder, "install", *requirements)
    return folder


def build_wheel(folder: Path, python: str, sdist: Path, made: Path) -> Path:
    """Build from the source distribution, which shows that it is complete."""
    run(python, "-m", "venv", "--without-pip", folder)
    before = set(made.iterdir())
    pip(folder, "wheel", "--no-deps", "--no-cache-dir", "--wheel-dir", made, sdist)
    (wheel,) = set(made.iterdir()) - before
    return wheel


def check_wheel(folder: Path, python: str, source: Path, wheel: Path, version: str) -> None:
    """Install a wheel as the Dockerfile does, and start what it has installed. Raises CalledProcessError."""
    environment(folder, python, "--require-hashes", "--requirement", source / "deploy/requirements.lock")
    pip(folder, "install", "--no-index", "--no-deps", wheel)
    pip(folder, "check")
    command = [str(folder / "bin/keyrail"), "--version"]
    said = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    print(said)
    if said != f"keyrail {version} (compiled)":
        print(f"release: expected keyrail {version} (compiled)", file=sys.stderr)
        raise subprocess.CalledProcessError(1, command)


def build_sbom(tools: Path, work: Path, source: Path, target: Path, version: str) -> None:
    """List the dependencies that the image and a locked installation have, as CycloneDX JSON."""
    project = work / "pyproject.toml"  # the tool knows no version that another file has
    text = (source / "pyproject.toml").read_text("utf-8")
    project.write_text(text.replace('dynamic = ["version"]', f'version = "{version}"'), "utf-8")
    locked = environment(
        work / "locked", sys.executable, "--require-hashes", "--requirement", source / "deploy/requirements.lock"
    )
    run(
        tools / "bin/cyclonedx-py",
        *("environment", "--output-reproducible", "--output-format", "JSON"),
        *("--pyproject", str(project), "--output-file", str(target), str(locked)),
    )


def build_image(builder: str, source: Path, version: str) -> None:
    """Build the image into the builder's own store."""
    tag = f"keyrail:{version}"
    run(builder, "build", *DOCKER_FORMAT.get(builder, []), "--tag", tag, source)
    if builder != "buildah":  # it starts no image
        run(builder, "run", "--rm", tag, "--version")
    print(f"release: built the image {tag} with {builder}")


def publish(made: Path) -> None:
    """Write the checksums, and move everything to dist/."""
    files = sorted(made.iterdir())
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (made / "SHA256SUMS").write_text("".join(sums))
    shutil.copytree(made, DIST, dirs_exist_ok=True)
    for file in sorted(DIST.iterdir()):
        print(f"release: built {file}")


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def pip(folder: Path, *arguments: str | Path) -> None:
    run(sys.executable, "-m", "pip", "--python", folder, "--disable-pip-version-check", "--quiet", *arguments)


def run(*command: str | Path) -> None:
    subprocess.run(command, check=True)


def step(what: str) -> None:
    print(f"\n== {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
