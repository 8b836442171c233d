"""The files themselves tell which form runs, and a mixture is refused.

A run for one form must not pass by testing the other: ``KEYRAIL_TEST_FORM`` names the expected form.
"""

import os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from proxy import build_form
from proxy.build_form import BUILD_FORM, build_form_of, is_plain_installation
from proxy.hotpath.intake import intake
from proxy.wire import request


def package(folder: Path, *names: str) -> Path:
    (folder / "wire").mkdir()
    for name in names:
        (folder / "wire" / name).touch()
    return folder


def test_this_run_tests_the_form_that_it_was_meant_for() -> None:
    assert os.environ.get("KEYRAIL_TEST_FORM", BUILD_FORM) == BUILD_FORM


def test_the_hot_modules_are_what_the_form_says() -> None:
    for module in (intake, request):
        assert str(module.__file__).endswith(tuple(EXTENSION_SUFFIXES)) is (BUILD_FORM == "compiled")
    assert build_form.build_form_of(Path(str(build_form.__file__)).parent) == BUILD_FORM


def test_sources_alone_are_plain(tmp_path: Path) -> None:
    assert build_form_of(package(tmp_path, "reply.py", "reply.pxd", "encode.py")) == "plain"


def test_machine_code_for_every_typed_module_is_compiled(tmp_path: Path) -> None:
    suffix = EXTENSION_SUFFIXES[0]
    assert build_form_of(package(tmp_path, "reply.py", "reply.pxd", f"reply{suffix}", "encode.py")) == "compiled"


def test_machine_code_of_another_python_does_not_count(tmp_path: Path) -> None:
    assert build_form_of(package(tmp_path, "reply.py", "reply.pxd", "reply.cpython-27-x86_64-linux-gnu.so")) == "plain"


def test_a_mixture_is_refused_by_name(tmp_path: Path) -> None:
    suffix = EXTENSION_SUFFIXES[0]
    folder = package(tmp_path, "reply.py", "reply.pxd", f"reply{suffix}", "request.py", "request.pxd")
    with pytest.raises(ImportError, match="except for wire/request"):
        build_form_of(folder)


def test_a_plain_installation_is_told_from_a_source_tree(tmp_path: Path) -> None:
    installed = tmp_path / "site-packages/proxy"
    assert is_plain_installation("plain", installed)
    assert not is_plain_installation("compiled", installed)
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages/pyproject.toml").touch()
    assert not is_plain_installation("plain", installed)
