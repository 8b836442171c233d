"""Whatever README tells its reader to type works and shows what README says; its tables leave nothing out.

Its first two commands set up environments, which a test run must not do to itself: `.ci/run` runs those.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from proxy.build_form import BUILD_FORM
from proxy.net.settings import AdminSettings, Settings
from proxy.policy.load import load_policy
from proxy.server.config import load_settings
from proxy.server.options import OPTIONS, OptionScope
from tests.conftest import Fleet
from tests.engines import Engine, free_port
from tests.keyrail_process import Keyrail, environment
from tests.readme.blocks import README, Block, blocks, blocks_of
from tests.readme.terminal import Step, Terminal, pattern, steps

REPOSITORY = README.parent
NOT_RUN = {
    "docker ": "needs a Docker daemon and the network",
    ".venv/bin/python -m loadtest ": "takes minutes, and is about this machine",
    ".ci/run": "runs these very tests",
}
FILE_NAME = re.compile(r"# (\S+\.yaml)\n")


def shown_in(folder: Path, name: str, *command: str) -> None:
    """Put a program of this name into the folder's environment, where README's reader has it."""
    program = folder / ".venv/bin" / name
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text("#!/bin/sh\nexec " + " ".join(command) + ' "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as README's first command leaves it, with the files that README shows."""
    root = tmp_path_factory.mktemp("readme")
    shown_in(root, "keyrail", sys.executable, "-P", "-m", "proxy")
    shown_in(root, "python", sys.executable, "-P")
    shutil.copytree(REPOSITORY / "policies", root / "policies")
    for block in blocks_of("yaml"):
        if name := FILE_NAME.match(block.text):
            (root / name[1]).write_text(block.text)
    return root


@pytest.fixture(scope="module")
def terminal(folder: Path) -> Iterator[Terminal]:
    found = Terminal(folder, {**environment(), "TERM": "dumb"})
    yield found
    found.close()


@pytest.fixture(scope="module")
def here() -> Callable[[str], str]:
    """README's text as it is on this machine: other ports, for README's may be in use, and the form of this run."""
    ports = {port: str(free_port()) for port in ("6380", "6381", "9121", "9122")}

    def translate(text: str) -> str:
        for port, free in ports.items():
            text = re.sub(rf"\b{port}\b", free, text)
        text = re.sub(r"\bserve (?!.*--listen)", f"serve --listen 127.0.0.1:{ports['6380']} ", text)
        text = re.sub(r"\bserve (?!.*--admin)", f"serve --admin 127.0.0.1:{ports['9121']} ", text)
        text = re.sub(r"\bkeyrail top\b(?!.*--admin)", f"keyrail top --admin http://127.0.0.1:{ports['9121']}", text)
        return text.replace("1 worker, compiled", f"1 worker, {BUILD_FORM}")

    return translate


def consoles() -> list[pytest.param]:  # type: ignore[valid-type]  # pytest.param is a function that makes them
    return [pytest.param(block, id=f"line-{block.line}") for block in blocks_of("console")]


@pytest.mark.parametrize("block", consoles())
def test_what_is_typed_shows_what_readme_says(block: Block, terminal: Terminal, here: Callable[[str], str]) -> None:
    for tool in ("redis-cli", "curl"):
        if f"{tool} " in block.text and shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed here")
    assert not terminal.lost, "an earlier block of README went wrong, and this one builds on it"
    for step in steps(block.text):
        figures = "curl" in step.command or "keyrail top" in step.command  # up to a second old
        differs = terminal.run(Step(here(step.command), here(step.shown)), again=figures)
        terminal.lost = differs is not None
        assert differs is None, f"{step.command}\nREADME shows:\n{step.shown}\nthis came:\n{differs}"


def policies() -> list[Block]:
    return [block for block in blocks_of("yaml") if "keyrail: 1" in block.text]


def configurations() -> list[Block]:
    return [block for block in blocks_of("yaml") if "routes:" in block.text]


def test_every_policy_can_be_loaded(tmp_path: Path) -> None:
    assert policies()
    for block in policies():
        file = tmp_path / "policy.yaml"
        file.write_text(block.text)
        assert load_policy(file).rules


def test_every_configuration_can_be_loaded(tmp_path: Path) -> None:
    assert configurations()
    for block in configurations():
        file = tmp_path / "keyrail.yaml"
        file.write_text(block.text)
        assert load_settings({"config": [str(file)]}, {}).routes


def test_every_block_is_of_a_kind_that_is_tested() -> None:
    assert {block.language for block in blocks(README.read_text())} == {"sh", "console", "yaml"}
    assert len(policies()) + len(configurations()) == len(blocks_of("yaml"))


def test_what_is_not_run_here_is_known() -> None:
    for block in blocks_of("sh")[2:]:
        for line in block.text.replace("\\\n", "").splitlines():
            assert line.startswith((*NOT_RUN, "#")), f"{line}: no test runs it"


def test_the_table_of_options_is_complete() -> None:
    listed = re.findall(r"^\| `--([a-z-]+)", README.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted([option.flag.removeprefix("--") for option in OPTIONS] + ["config"])


def test_the_table_of_options_has_the_real_defaults() -> None:
    shown = dict(re.findall(r"^\| `--([a-z-]+)[^|]*\| `?([^|`]*?)`? *\|", README.read_text(), re.MULTILINE))
    real = Settings(routes=())
    for option in OPTIONS:
        if option.scope is OptionScope.GROUP:
            text = shown[option.flag.removeprefix("--")]
            assert (option.read(text) if text else None) == getattr(real, option.name), option.flag


def test_the_paths_of_the_admin_port_are_complete(fleet: Fleet) -> None:
    answered = fleet.keyrail("valkey-9.1").http("/")[1]
    row = re.search(r"^\| `--admin .*", README.read_text(), re.MULTILINE)
    assert row is not None
    assert re.findall(r"`(/[\w.]+)`", row[0]) == answered.split()[1:]


def test_the_table_of_metrics_is_complete(
    new_engine: Callable[..., Engine], new_keyrail: Callable[..., Keyrail]
) -> None:
    metrics = new_keyrail(new_engine().url, policy="default").http("/metrics")[1]
    families = set(re.findall(r"^# TYPE (\w+)", metrics, re.MULTILINE))
    listed = set(re.findall(r"^\| `(keyrail_\w+)", README.read_text(), re.MULTILINE))
    assert listed == families


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README.read_text()):
        assert target.startswith("https://") or (REPOSITORY / target).exists(), target


def test_the_image_is_found_alive_and_dead_as_it_should(
    new_engine: Callable[..., Engine], new_keyrail: Callable[..., Keyrail]
) -> None:
    """The health check of the Dockerfile is a program in a line that nothing else would ever run."""
    line = (REPOSITORY / "Dockerfile").read_text().replace("\\\n", "")
    found = re.search(r"HEALTHCHECK .*CMD (\[.*\])", line)
    assert found is not None
    keyrail = new_keyrail(new_engine().url)
    states = {
        f"127.0.0.1:{keyrail.admin_port}": 0,
        f"127.0.0.1:{free_port()}": 1,
        "off": 0,
    }
    for admin, status in states.items():
        checked = subprocess.run(
            json.loads(found[1]), env={**os.environ, "KEYRAIL_ADMIN": admin}, capture_output=True, check=False
        )
        assert checked.returncode == status, admin


def test_the_image_leaves_what_it_says_to_a_config_file(tmp_path: Path) -> None:
    """Variables would win over the file that somebody gives with --config, and be refused beside one with routes."""
    dockerfile = (REPOSITORY / "Dockerfile").read_text()
    made = re.search(r"^RUN (printf .*) > (\S+)$", dockerfile, re.MULTILINE)
    assert made is not None
    assert re.findall(r"^ENV (KEYRAIL_\w+)=(\S+)", dockerfile, re.MULTILINE) == [("KEYRAIL_CONFIG", made[2])]
    assert dockerfile.count("KEYRAIL_LISTEN") == 0
    file = tmp_path / "keyrail.yaml"
    file.write_bytes(subprocess.run(["sh", "-c", made[1]], stdout=subprocess.PIPE, check=True).stdout)
    settings = load_settings({}, {"KEYRAIL_CONFIG": str(file)})
    assert [str(each.address) for each in settings.routes[0].listeners] == ["redis://0.0.0.0:6380"]
    assert settings.admin == AdminSettings("0.0.0.0", 9121)


@pytest.mark.parametrize(
    ("shown", "output", "matches"),
    [
        ("OK", "OK\n", True),
        ("OK", "OK\nmore\n", False),
        ("(integer) 2…", "(integer) 295\n", True),
        ("a\n…\nb", "a\nx\ny\nb\n", True),
        ("a\n…\nb", "a\nx\n", False),
        ("", "", True),
        ("", "unexpected\n", False),
    ],
)
def test_the_comparison_can_fail(shown: str, output: str, matches: bool) -> None:
    assert bool(pattern(shown).fullmatch(output)) is matches
