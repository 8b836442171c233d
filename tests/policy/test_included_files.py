"""A policy includes files below its folder: anything else of that name is an error, and Keyrail never waits for it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.policy.load import load_policy
from proxy.policy_yaml.errors import PolicyError

TEAM = "app: checkout\nrules: {}\n"
SECRET = "a-secret-that-nobody-may-read: x\n"


def fifo(file: Path, _outside: Path) -> None:
    os.mkfifo(file)


def bound_socket(file: Path, _outside: Path) -> None:
    with socket.socket(socket.AF_UNIX) as each:
        each.bind(os.path.relpath(file))


def device(file: Path, _outside: Path) -> None:
    file.symlink_to("/dev/zero")


def link_out(file: Path, outside: Path) -> None:
    file.symlink_to(outside)


def relative_link_out(file: Path, outside: Path) -> None:
    file.symlink_to(os.path.relpath(outside, file.parent))


def folder_out(file: Path, outside: Path) -> None:
    file.parent.rmdir()
    file.parent.symlink_to(outside.parent)


def loop(file: Path, _outside: Path) -> None:
    file.symlink_to(file.name)


def nowhere(file: Path, _outside: Path) -> None:
    file.symlink_to("nowhere.yaml")


KINDS = (fifo, bound_socket, device, link_out, relative_link_out, folder_out, loop, nowhere)


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("pattern", ["apps/*.yaml", "apps/team.yaml", "**/team.yaml"])
def test_what_is_no_file_of_the_folder_is_an_error(
    make: Callable[[Path, Path], None], pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies" / "apps").mkdir(parents=True)
    (tmp_path / "others").mkdir()
    outside = tmp_path / "others" / "team.yaml"
    outside.write_text(SECRET)
    make(tmp_path / "policies" / "apps" / "team.yaml", outside)
    first = tmp_path / "policies" / "first.yaml"
    first.write_text(f"keyrail: 1\ninclude: ['{pattern}']\nrules: {{}}\n")
    with pytest.raises(PolicyError) as wrong:
        load_policy(first)
    assert len(wrong.value.problems) == 1, str(wrong.value)
    assert "secret" not in str(wrong.value)


def test_links_that_stay_in_the_folder_are_followed(tmp_path: Path) -> None:
    """Kubernetes mounts a ConfigMap as links to a folder beside them, which it swaps."""
    data = tmp_path / "..2026_11_22"
    data.mkdir()
    (tmp_path / "..data").symlink_to(data.name)
    (data / "first.yaml").write_text(
        "keyrail: 1\napps: {checkout: {match: {user: c}}}\ninclude: [team*.yaml]\nrules: {}\n"
    )
    (data / "team.yaml").write_text(TEAM)
    for name in ("first.yaml", "team.yaml"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    assert load_policy(tmp_path / "first.yaml").files == (str(tmp_path / "first.yaml"), str(tmp_path / "team.yaml"))


@pytest.mark.parametrize(
    "match",
    [
        "user",
        "[user]",
        "{}",
        "{usr: x}",
        "{nosuch: x}",
        "{user: []}",
        "{user: [[x]]}",
        "{user: [z, z]}",
        "{address: x}",
        "{address: ['::1', x]}",
        "{user: {}}",
        "{user: ''}",
        "",
        '{user: "a\\tb"}',
    ],
)
def test_one_bad_match_makes_one_error(match: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(
        f"keyrail: 1\napps:\n  checkout: {{team: a, match: {match}}}\n  other: {{match: {{user: x}}}}\n"
        "rules:\n  walks: {refuse: [KEYS]}\nrollout: {walks: {checkout: enforce}}\n"
        "exceptions: [{rule: walks, app: checkout, because: x, until: 2027-01-15}]\n"
        "tests: [{send: KEYS *, app: checkout, refused_by: walks}]\n"
    )
    with pytest.raises(PolicyError) as wrong:
        load_policy(file)
    assert [problem.path.split(".")[:2] for problem in wrong.value.problems] == [["apps", "checkout"]], str(wrong.value)
