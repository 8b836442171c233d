"""`keyrail init`: from five answers, by options or on a terminal, to a policy that is valid at each of its levels."""

from __future__ import annotations

import os
import pty
import random
import re
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import combinations
from pathlib import Path

import pytest

from proxy.cli import main
from proxy.cli.init.answers import (
    QUESTIONS,
    Answers,
    Purpose,
    Question,
    read_apps,
    read_redis,
    read_teams,
)
from proxy.cli.init.policy_text import LEVELS, policy_text, uncommented
from proxy.policy.apps import Caller, identify
from proxy.policy.expectations import run_tests
from proxy.policy.load import load_policy
from proxy.policy.model import Mode
from tests.conftest import seeds
from tests.engines import Engine, free_port
from tests.keyrail_process import command_line, environment
from tests.resp import PATIENCE_SECONDS

GIVEN = {
    "--redis": "redis://127.0.0.1:1",
    "--for": "cache",
    "--teams": "checkout,search",
    "--forever": "no",
    "--apps": "checkout=user:checkout,reports=client_name:spark-*",
}


def init(*more: str, without: str = "", **other: str) -> list[str]:
    """The arguments, with all answers but one; `other` has answers in place of these."""
    answers = {**GIVEN, **{f"--{name.rstrip('_')}": answer for name, answer in other.items()}}
    return [
        "init",
        *(word for option, answer in answers.items() if option != without for word in (option, answer)),
        *more,
    ]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


TEAMS = (
    "checkout",
    "checkout-eu",
    "search",
    "data",
    "temp",
    "test",
    "nobody",
    "cache",
    "session",
    "lock",
    "rate",
    "0",
    "no",
    "a_b",
)
PIECES = (
    "a",
    "*",
    ":",
    '"',
    "'",
    "\\",
    " ",
    "#",
    " #",
    ": ",
    "- ",
    "{",
    "}",
    "[",
    "&",
    "!",
    "%",
    "@",
    "`",
    "|",
    ">",
    "?",
    "é",
    "€",
    "🔑",
    "~",
    "=",
)
"""What means something in YAML, or could be read in two ways."""


def made_up(rng: random.Random) -> tuple[Answers, bool]:
    """Answers of all kinds, and whether Redis is a cluster."""
    teams = rng.sample(TEAMS, rng.randrange(5))
    names = [*teams, *(f"{team}-worker" for team in teams), "reports", "null", "0x1"]
    conditions = ("user", "client_name", "listener", "certificate")
    patterns = {
        name: "".join(rng.choices(PIECES, k=rng.randint(1, 6))).strip() or "x"
        for name in rng.sample(names, rng.randrange(4))
    }
    apps = {pattern: f"{name}={rng.choice(conditions)}:{pattern}" for name, pattern in patterns.items()}
    return Answers(
        read_redis(rng.choice(["redis://h", "redis://:a'b\"c@h:1/3", "unix:///run/r%20s.sock", "h:6379"])),
        rng.choice([*Purpose]),
        read_teams(",".join(teams) or "none"),
        rng.random() < 0.5,
        read_apps(",".join(apps.values()) or "none"),
    ), rng.random() < 0.5


@pytest.mark.parametrize("seed", seeds(20))
def test_a_policy_is_valid_with_each_level_uncommented(seed: int, tmp_path: Path) -> None:
    answers, cluster = made_up(random.Random(seed))
    text = policy_text(answers, "valkey 9.1.0", "policy.yaml", cluster=cluster)
    file = tmp_path / "policy.yaml"
    further = [others for number in range(len(LEVELS)) for others in combinations(LEVELS[1:], number)]
    rules, tests = {}, {}
    for levels in further:
        file.write_text(uncommented(text, levels), "utf-8")
        policy = load_policy(file)
        report = run_tests(policy, time.time())
        assert [str(each) for each in report.outcomes if not each.passed] == [], (levels, text)
        assert report.unreached == (), (levels, text)
        assert policy.warnings == ()
        assert policy.default.mode is Mode.AUDIT
        rules[levels], tests[levels] = {rule.name for rule in policy.rules}, len(policy.tests)
        for app in answers.apps:
            seen = Caller(**{"user": "", app.condition: app.pattern})
            assert identify([each for each in policy.apps if each.name == app.name], seen) is not None
    for level in LEVELS[1:]:
        assert rules[(level,)] > rules[()], "a level has rules"
        assert tests[(level,)] > tests[()], "a level has tests"
    assert re.search("^#[234]", uncommented(text, LEVELS), re.MULTILINE) is None


def test_sed_uncomments_a_level_as_the_heading_says(tmp_path: Path) -> None:
    assert main(init("--out", "my policy.yaml")) == 0
    text = Path("my policy.yaml").read_text()
    for level in LEVELS[1:]:
        (command,) = re.findall(rf"# To uncomment it: (sed .*\^#{level} .*)", text)
        assert shlex.split(command)[-1] == "my policy.yaml"
        subprocess.run(command, shell=True, check=True)
        assert Path("my policy.yaml").read_text() == uncommented(text, LEVELS[:level])
        assert main(["check", "my policy.yaml"]) == 0


@pytest.mark.parametrize(
    ("option", "answer", "expected"),
    [
        ("--redis", "http://h", "bad URL 'http://h': expected redis://"),
        ("--redis", "redis://h\nrules: {}", "bad URL"),
        ("--for", "cache: x", "expected cache or store, got 'cache: x'"),
        ("--forever", "", "expected yes or no, got ''"),
        ("--teams", "a: b", "expected prefixes of lower-case letters, digits, - and _, at most 40, such as"),
        ("--teams", "checkout,,search", "such as checkout,search, or none; got ''"),
        ("--teams", "a\nb", "got 'a\\nb'"),
        ("--teams", '"a"', "got '\"a\"'"),
        ("--teams", "a,b:,a", "'a' is there twice"),
        ("--teams", "x" * 41, "at most 40"),
        ("--apps", "checkout", "expected NAME=CONDITION:PATTERN, such as checkout=user:checkout, or none"),
        (
            "--apps",
            "checkout=name:x",
            "with a condition of user, client_name, listener, certificate; got 'checkout=name:x'",
        ),
        ("--apps", "a: {b=user:x", "expected an app's name of lower-case letters"),
        ("--apps", "unknown=user:x", "and not unknown or default; got 'unknown'"),
        ("--apps", "a=user:x\ny", "expected a pattern of user, one line of at most 512 characters"),
        ("--apps", "a=user:", "got ''"),
        ("--apps", "a=user:x\udcff", "got 'x\\udcff'"),
        ("--apps", "a=user:x,b=user:x", "'user:x' is there twice"),
        ("--out", "a\nb.yaml", "expected a file in a folder that exists, got 'a\\nb.yaml'"),
        ("--out", "no-such-folder/policy.yaml", "expected a file in a folder that exists"),
    ],
)
def test_a_wrong_answer_is_named_with_what_was_expected(
    option: str, answer: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(init(option, answer, without=option))
    (line,) = capsys.readouterr().err.splitlines()
    assert (ended.value.code, line.startswith(f"keyrail: argument {option}: ")) == (2, True)
    assert expected in line
    assert list(Path().iterdir()) == []


def test_answers_that_contradict_each_other_are_told_as_check_tells_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(init(apps="a=listener:h:1,b=listener:redis://h:1")) == 2
    assert re.search(r"no valid policy: policy\.yaml:\d+: apps\.b\.match: found the same", capsys.readouterr().err)
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: str(each.name))
def test_without_a_terminal_what_is_missing_is_named(question: Question, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(init(without=question.option)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"keyrail: {question.option} is missing, and there is no terminal to ask: {question.text}"
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("link", [False, True])
def test_a_file_is_overwritten_only_if_told(link: bool, capsys: pytest.CaptureFixture[str]) -> None:
    mine = Path("policy.yaml")
    if link:
        mine.symlink_to("gone.yaml")
    else:
        mine.write_text("mine")
    assert main(init()) == 2
    problem = "keyrail: policy.yaml exists already: --out names another file, --force overwrites it\n"
    assert capsys.readouterr() == ("", problem), "before anything else"
    assert link or mine.read_text() == "mine"
    assert main(init("--force")) == 0
    assert load_policy(mine).rules


def test_a_file_that_appears_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def appear(*_: object) -> None:
        Path("policy.yaml").write_text("mine")

    monkeypatch.setattr("proxy.cli.init.look.look", appear)
    assert main(init()) == 2
    assert Path("policy.yaml").read_text() == "mine"


def test_a_folder_in_the_place_of_the_file_is_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    Path("policy.yaml").mkdir()
    assert main(init("--force")) == 1
    assert capsys.readouterr().err == "keyrail: cannot write policy.yaml: Is a directory\n"


def test_without_redis_it_says_so_and_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    assert main(init(redis=f"redis://ann:secret@127.0.0.1:{port}/2", out="my policy.yaml")) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"FAIL redis://127.0.0.1:{port}/2: ")
    assert "The policy is written without it" in text
    url = f"redis://ann:***@127.0.0.1:{port}/2"
    next_commands = f"""Next, with REDIS_URL set to {url} (its password in place of ***):
  keyrail check 'my policy.yaml'
  keyrail doctor --upstream "$REDIS_URL" --policy 'my policy.yaml'
  keyrail serve --upstream "$REDIS_URL" --policy 'my policy.yaml'
"""
    assert next_commands in text
    policy = Path("my policy.yaml").read_text()
    assert f"# A first policy for {url} (not reached), a cache whose keys may not live for ever." in policy
    assert "secret" not in text + policy
    assert "databases: [2]" in policy


def test_seeds_of_a_cluster_make_the_policy_of_a_cluster() -> None:
    assert main(init(redis=f"redis+cluster://127.0.0.1:{free_port()}")) == 0
    policy = Path("policy.yaml").read_text()
    assert "banned: [PENDING" in policy
    assert "databases" not in policy


NewEngine = Callable[..., Engine]


def test_what_redis_tells_of_itself(new_engine: NewEngine, capsys: pytest.CaptureFixture[str]) -> None:
    engine = new_engine("redis-7.0", {"rename-command": "MONITOR gone"})
    assert main(init(redis=engine.url)) == 0
    text = capsys.readouterr().out
    assert text.startswith("OK   redis 7.0.")
    assert "\nOK   not a cluster\nWARN Redis has renamed MONITOR (rename-command)" in text
    assert " has no MSETEX; lifetimes on MSET and MSETNX use a follow-up EXPIRE instead" in text
    assert f"  keyrail serve --upstream {engine.url} --policy policy.yaml\n" in text
    assert re.search(rf"# A first policy for {engine.url} \(redis 7\.0\.\d+\)", Path("policy.yaml").read_text())


def test_a_node_of_a_cluster(new_engine: NewEngine, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(init(redis=new_engine(options={"cluster-enabled": "yes"}).url)) == 0
    assert "OK   a node of a cluster" in capsys.readouterr().out
    assert "databases" not in Path("policy.yaml").read_text()


class Asked:
    """`keyrail init` on a terminal."""

    def __init__(self, *options: str) -> None:
        self.screen, terminal = pty.openpty()
        command = [*command_line()[:-1], "init", *options]
        self.process = subprocess.Popen(
            command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment(), start_new_session=True
        )
        os.close(terminal)

    def wait_for(self, text: str) -> str:
        """Read until the text has been written, and return all that has been since the last call."""
        found, end = "", time.monotonic() + 3 * PATIENCE_SECONDS
        while text not in found:
            left = end - time.monotonic()
            assert left > 0, f"no {text!r} in {found!r}"
            if select.select([self.screen], [], [], left)[0]:
                found += os.read(self.screen, 65536).decode()
        return found

    def answer(self, asked: str, answer: str) -> str:
        found = self.wait_for(asked)
        os.write(self.screen, f"{answer}\n".encode())
        return found

    def status(self) -> int:
        return self.process.wait(PATIENCE_SECONDS)

    def interrupted(self) -> int:
        """Interrupt it: again, where the signal has come just before the read that it was to end."""
        for _ in range(int(PATIENCE_SECONDS)):
            self.process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                return self.process.wait(1.0)
        raise AssertionError("it goes on")


@pytest.fixture
def asked() -> Iterator[Callable[..., Asked]]:
    started: list[Asked] = []

    def start(*options: str) -> Asked:
        started.append(Asked(*options))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait()
        os.close(each.screen)


def test_answers_are_typed_on_a_terminal(asked: Callable[..., Asked]) -> None:
    asking = asked()
    asking.answer("Its URL [redis://127.0.0.1:6379]: ", f"127.0.0.1:{free_port()}")
    assert "The policy is written without it" in asking.answer("store of data? [cache]: ", "both")
    assert "expected cache or store, got 'both'" in asking.answer("store of data? [cache]: ", "store")
    asking.answer("such as checkout,search? [none]: ", "checkout, search")
    asking.answer("without a TTL? [no]: ", "")
    asking.answer("client_name:spark-*? [none]: ", "checkout=user:checkout")
    asking.wait_for("Then change the URL of one application to redis://127.0.0.1:6380.")
    assert asking.status() == 0
    assert "a data store whose keys may not live for ever" in Path("policy.yaml").read_text()
    assert [app.team for app in load_policy(Path("policy.yaml")).apps] == ["checkout"]


def test_what_options_answer_is_not_asked(asked: Callable[..., Asked]) -> None:
    asking = asked(*init(without="--forever")[1:])
    assert "?" not in asking.answer("May keys live for ever", "yes").partition("May keys")[0]
    asking.wait_for("Then change")
    assert asking.status() == 0
    assert "whose keys may live for ever" in Path("policy.yaml").read_text()


def test_an_input_that_ends_leaves_no_file(asked: Callable[..., Asked]) -> None:
    asking = asked(*init(without="--forever")[1:])
    asking.wait_for("[no]: ")
    os.write(asking.screen, b"\x04")
    asking.wait_for("keyrail: the input has ended, so no policy is written")
    assert asking.status() == 2
    assert list(Path().iterdir()) == []


def test_an_interrupt_leaves_no_file(asked: Callable[..., Asked]) -> None:
    asking = asked(*init(without="--forever")[1:])
    asking.wait_for("[no]: ")
    assert asking.interrupted() == 130
    assert list(Path().iterdir()) == []
