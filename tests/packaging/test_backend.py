"""The build backend: wheels are compiled if there is a compiler and plain if there is none, never a mixture.

The tests build a miniature of the project, so that each case takes seconds; ``.ci/run`` builds the real one.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from proxy import build_form

PROJECT = Path(__file__).parents[2]
HOT = {"proxy/wire/count.py": "proxy/wire/count.pxd", "proxy/hotpath/add.py": "proxy/hotpath/add.pxd"}

pytestmark = pytest.mark.source
needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no C compiler to compile with")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A source tree with two hot modules, one ordinary module, and one policy."""
    root = tmp_path / "tree"
    shutil.copytree(PROJECT / ".packaging", root / ".packaging", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PROJECT / "pyproject.toml", root)
    (root / "README.md").write_text("# Keyrail\n")
    (root / "policies").mkdir()
    (root / "policies" / "default.yaml").write_text("keyrail: 1\n")
    for folder in ("proxy", "proxy/wire", "proxy/hotpath", "proxy/policy"):
        (root / folder).mkdir()
        (root / folder / "__init__.py").write_text('__version__ = "1.2.3"\n')
    for source, types in HOT.items():
        (root / source).write_text("def one():\n    return 1\n")
        (root / types).write_text("cpdef long one()\n")
    return root


def build(root: Path, kind: str, target: Path, environment: Mapping[str, str] | None = None) -> Path:
    """Build a "wheel" or an "sdist" of the tree, as pip would."""
    target.mkdir(exist_ok=True)
    code = f"import sys; sys.path.insert(0, '.packaging'); import backend; print(backend.build_{kind}(sys.argv[1]))"
    made = subprocess.run(
        [sys.executable, "-c", code, str(target)],
        cwd=root,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "KEYRAIL_PLAIN": "", **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise RuntimeError(made.stdout + made.stderr)
    return target / made.stdout.split()[-1]


def compiled_modules(wheel: Path) -> set[str]:
    """The sources that have machine code beside them in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name.split(".")[0] + ".py" for name in archive.namelist() if name.endswith(".so")}


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


@pytest.mark.long
@needs_compiler
def test_a_wheel_is_compiled_and_for_this_platform(tree: Path, tmp_path: Path) -> None:
    wheel = build(tree, "wheel", tmp_path / "dist", {"KEYRAIL_PLAIN": "0"})
    assert compiled_modules(wheel) == set(HOT)
    assert "-none-any" not in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if ".data/" in name or name.endswith(".c")]


@needs_compiler
def test_what_is_compiled_can_be_imported_and_says_so(tree: Path, tmp_path: Path) -> None:
    shutil.copy(str(build_form.__file__), tree / "proxy/build_form.py")
    with zipfile.ZipFile(build(tree, "wheel", tmp_path / "dist")) as archive:
        archive.extractall(tmp_path / "installed")
    code = "from proxy.build_form import BUILD_FORM; from proxy.wire.count import one; print(BUILD_FORM, one())"
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "installed", capture_output=True, check=True)
    assert found.stdout == b"compiled 1\n"


def test_without_a_compiler_the_wheel_is_plain_and_for_every_platform(tree: Path, tmp_path: Path) -> None:
    wheel = build(tree, "wheel", tmp_path / "dist", {"PATH": str(tmp_path), "CC": ""})
    assert compiled_modules(wheel) == set()
    assert wheel.name.endswith("-py3-none-any.whl")


def test_a_build_that_must_compile_fails_without_a_compiler(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="No such file"):
        build(tree, "wheel", tmp_path / "dist", {"PATH": str(tmp_path), "CC": "", "KEYRAIL_PLAIN": "0"})


def test_a_plain_wheel_can_be_asked_for(tree: Path, tmp_path: Path) -> None:
    assert compiled_modules(build(tree, "wheel", tmp_path / "dist", {"KEYRAIL_PLAIN": "1"})) == set()


@pytest.mark.long
def test_one_module_that_does_not_compile_makes_the_whole_wheel_plain(tree: Path, tmp_path: Path) -> None:
    header = 'cdef extern from "no_such_header.h":\n    int nothing\n'
    (tree / "proxy/wire/count.pxd").write_text(header + "cpdef long one()\n")
    assert compiled_modules(build(tree, "wheel", tmp_path / "dist")) == set()


def test_policies_come_with_the_package(tree: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(build(tree, "wheel", tmp_path / "dist", {"KEYRAIL_PLAIN": "1"})) as archive:
        assert archive.read("proxy/policy/packaged/default.yaml") == b"keyrail: 1\n"


def test_types_that_only_the_type_checker_reads_stay_out_of_the_package(tree: Path, tmp_path: Path) -> None:
    (tree / "proxy/wire/page.js").write_text("// code\n")
    (tree / "proxy/wire/types.d.ts").write_text("// types\n")
    with zipfile.ZipFile(build(tree, "wheel", tmp_path / "dist", {"KEYRAIL_PLAIN": "1"})) as archive:
        names = archive.namelist()
    assert "proxy/wire/page.js" in names
    assert "proxy/wire/types.d.ts" not in names


def test_nothing_that_an_earlier_build_left_reaches_a_package(tree: Path, tmp_path: Path) -> None:
    stale = tree / "build/lib/proxy/wire"
    stale.mkdir(parents=True)
    (stale / "count.cpython-311-x86_64-linux-gnu.so").write_bytes(b"stale")
    (tree / "proxy/wire/count.abi3.so").write_bytes(b"stale")
    (tree / "proxy/wire/count.c").write_text("stale")
    wheel = build(tree, "wheel", tmp_path / "dist", {"KEYRAIL_PLAIN": "1"})
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if name.endswith((".so", ".c"))]
    with tarfile.open(build(tree, "sdist", tmp_path / "dist")) as source:
        assert not [name for name in source.getnames() if name.endswith((".so", ".c")) or "/build" in name]


@pytest.mark.long
def test_a_build_leaves_the_source_tree_as_it_was(tree: Path, tmp_path: Path) -> None:
    before = files(tree)
    build(tree, "wheel", tmp_path / "dist")
    build(tree, "sdist", tmp_path / "dist")
    assert files(tree) == before


@pytest.mark.long
def test_a_wheel_from_the_source_distribution_is_the_same_as_one_from_the_tree(tree: Path, tmp_path: Path) -> None:
    with tarfile.open(build(tree, "sdist", tmp_path / "dist")) as source:
        source.extractall(tmp_path / "unpacked", filter="data")
    direct = build(tree, "wheel", tmp_path / "direct")
    again = build(tmp_path / "unpacked/keyrail-1.2.3", "wheel", tmp_path / "again")
    assert again.name == direct.name
    with zipfile.ZipFile(direct) as one, zipfile.ZipFile(again) as two:
        assert sorted(one.namelist()) == sorted(two.namelist())


def test_where_processes_share_no_locks_one_translates_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROJECT / ".packaging"))
    backend = pytest.importorskip("backend")
    asked: list[object] = []

    def cythonize(modules: list[str], nthreads: int = 0, **_: object) -> list[str]:
        asked.append(nthreads)
        if nthreads:
            raise NotImplementedError("system provides too few semaphores")
        return modules

    monkeypatch.setattr(backend, "cythonize", cythonize)
    assert backend.translated_to_c(["a"]) == ["a"]
    assert asked == [os.cpu_count(), 0]
