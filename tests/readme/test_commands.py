"""Every command in README and docs/ works, and prints the documented output.

Each page runs on its own, from its first block to its last, in a folder as README's first command leaves it. README's
first two commands set up environments, which a test run must not do to itself: `.ci/run` runs those.
"""

from __future__ import annotations

import re
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.build_form import BUILD_FORM
from proxy.policy.load import load_policy
from proxy.server.config import load_settings
from tests.conftest import kind_named
from tests.engines import Engine, free_port
from tests.fork_server import requests_of
from tests.keyrail_process import FORKED, environment
from tests.readme.blocks import PAGES, README, REPOSITORY, Block, blocks, blocks_of
from tests.readme.terminal import Step, Terminal, pattern, steps

NOT_RUN = {
    "docker ": "needs a Docker daemon and the network",
    "helm ": "needs a cluster; tests/packaging/test_deploy.py renders the chart",
    "python3 -m venv /opt/keyrail": "writes outside the folder, as the next two",
    "cp deploy/systemd/": "see above",
    "systemctl ": "needs systemd; tests/packaging/test_deploy.py verifies the unit",
    ".venv/bin/python -m loadtest ": "takes minutes, and is about this machine",
    "0 3 * * * keyrail ": "a line of a crontab",
    ".ci/": "runs these very tests, or builds what they test",
    "git ": "changes a repository",
    ".venv/bin/python -m pytest ": "these are the tests",
}
ELSEWHERE = {
    "guardrails.md": {"yaml"},  # test_policy_pages.py
    "policies.md": {"yaml", "yaml policy"},
    "libraries.md": {"yaml lines"},  # tests/libraries
    "install.md": {"yaml values"},  # tests/packaging/test_chart.py
    "schema.md": {"python", "javascript"},  # test_schema_page.py
}
"""Languages of blocks that other tests run."""
FILE_NAME = re.compile(r"# (\S+\.yaml)\n")
FIGURES = (
    "curl ",
    "keyrail top",
    "redis-cli -p 6380 KEYRAIL ",
    "keyrail incidents",
    "keyrail ready",
    "keyrail report",
    "keyrail remedy list",
    "keyrail diff ",
)
"""Commands that show figures, which are up to some seconds old: they are typed until they show what they should."""
REDIS_PORT = "6379"
PORTS = (REDIS_PORT, "6380", "6381", "9121", "9122")
"""What pages call the ports of a Redis, of Keyrail and of its admin port."""


def page_id(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


def shown_in(folder: Path, name: str, *command: str) -> None:
    """Put a program of this name into the folder's environment, where README's reader has it."""
    program = folder / ".venv/bin" / name
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text("#!/bin/sh\nexec " + " ".join(command) + ' "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


class Desk:
    """A folder as README's first command leaves it, with the files that a page shows, and a terminal in it."""

    def __init__(self, folder: Path, page: Path) -> None:
        self._ports = {port: str(free_port()) for port in PORTS}
        self.folder = folder
        variables = environment()
        # A shell is to find `keyrail` there, which the compiled run starts as users do.
        forks = [requests_of(variables["PYTHONPATH"])] if FORKED else []
        forked = [sys.executable, "-I", "-S", str(REPOSITORY / "tests/fork_client.py"), *map(str, forks)]
        shown_in(folder, "keyrail", *(forked if forks else [sys.executable, "-P", "-m", "proxy"]))
        shown_in(folder, "python", sys.executable, "-P")
        shutil.copytree(REPOSITORY / "policies", folder / "policies")
        for block in blocks_of("yaml", page):
            if name := FILE_NAME.match(block.text):
                (folder / name[1]).write_text(self.here(block.text))
        text = page.read_text("utf-8")
        self._redis = (
            Engine(kind_named("valkey-9.1"), port=int(self._ports[REDIS_PORT])) if REDIS_PORT in text else None
        )
        path = f"{folder}/.venv/bin:{variables['PATH']}"
        self.terminal = Terminal(folder, {**variables, "PATH": path, "TERM": "dumb"}, forks)

    def here(self, text: str) -> str:
        """A page's text as it is on this machine: other ports, since those may be in use, and the form of this run."""
        for port, free in self._ports.items():
            text = re.sub(rf"\b{port}\b", free, text)
        return text.replace("1 worker, compiled", f"1 worker, {BUILD_FORM}")

    def step(self, shown: Step) -> Step:
        """A command and its output as they are here. Verbs of `keyrail` are told the ports that they use by default."""
        admin = f"127.0.0.1:{self._ports['9121']}"
        command, output = self.here(shown.command), self.here(shown.shown)
        command = re.sub(
            r"\bserve (?!.*--(?:listen|config))", f"serve --listen 127.0.0.1:{self._ports['6380']} ", command
        )
        command = re.sub(r"\bserve (?!.*--(?:admin|config))", f"serve --admin {admin} ", command)
        asking = r"\bkeyrail (?:top|incidents|ready|report|diff|learn|remedy|kill-switch)\b(?!.*--admin)[^|&>]*"
        command = re.sub(asking, rf"\g<0> --admin http://{admin} ", command)
        output = re.sub(r"remedy: keyrail remedy .*", rf"\g<0> --admin http://{admin}", output)
        return Step(command, output)

    def close(self) -> None:
        self.terminal.close()
        if self._redis is not None:
            self._redis.close()


@pytest.fixture
def desk(tmp_path: Path, page: Path) -> Iterator[Desk]:
    for tool in ("redis-cli", "redis-benchmark", "curl"):
        if shutil.which(tool) is None and any(f"{tool} " in block.text for block in blocks_of("console", page)):
            pytest.skip(f"{tool} is not installed here")
    found = Desk(tmp_path, page)
    yield found
    found.close()


FIRST_PAGES = ("README.md", "guardrails.md", "policies.md", "rollout.md")
"""Those that most readers type from; ``.ci/night`` types from the others, too."""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page_id(page), marks=[] if page.name in FIRST_PAGES else pytest.mark.long)
        for page in PAGES
        if blocks_of("console", page)
    ],
)
def test_what_is_typed_shows_what_the_page_says(page: Path, desk: Desk) -> None:
    for block in blocks_of("console", page):
        for step in steps(block.text):
            figures = any(name in step.command for name in FIGURES) and " -X " not in step.command
            differs = desk.terminal.run(desk.step(step), again=figures)
            assert differs is None, (
                f"{page_id(page)}, block in line {block.line}: {step.command}\n"
                f"the page shows:\n{step.shown}\nthis came:\n{differs}"
            )


def yaml_blocks(key: str) -> list[object]:
    """The YAML blocks of all pages that have this key."""
    return [
        pytest.param(block, id=f"{page_id(page)}:{block.line}")
        for page in PAGES
        for block in blocks_of("yaml", page)
        if key in block.text
    ]


@pytest.mark.parametrize("block", yaml_blocks("keyrail: 1"))
def test_every_policy_can_be_loaded(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(block.text)
    assert load_policy(file).rules


@pytest.mark.parametrize("block", yaml_blocks("routes:"))
def test_every_configuration_can_be_loaded(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "keyrail.yaml"
    file.write_text(block.text)
    assert load_settings({"config": [str(file)]}, {}).routes


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_block_is_of_a_kind_that_is_tested(page: Path) -> None:
    others = ELSEWHERE.get(page.name, set())
    assert {block.language for block in blocks(page.read_text("utf-8"))} - others <= {
        "sh",
        "console",
        "yaml",
        "mermaid",
    }
    for block in blocks_of("yaml", page) if "yaml" not in others else ():
        assert "keyrail: 1" in block.text or "routes:" in block.text, block


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_what_is_not_run_here_is_known(page: Path) -> None:
    for block in blocks_of("sh", page)[2 if page == README else 0 :]:
        for line in block.text.replace("\\\n", "").splitlines():
            assert line.startswith((*NOT_RUN, "#")), f"{line}: no test runs it"


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
