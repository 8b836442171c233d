"""`keyrail init`: the verb. It asks, looks at Redis, checks the policy at each level, and only then writes the file."""

import argparse
import logging
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from proxy.cli.init.answers import APPS, FOR, FOREVER, QUESTIONS, REDIS, TEAMS, Answers, Question, Upstream
from proxy.cli.init.policy_text import LEVELS, policy_text, uncommented
from proxy.cli.line import LineParser
from proxy.net.config.address import ListenAddress
from proxy.policy.expectations import run_tests
from proxy.policy.load import load_policy
from proxy.policy_yaml.errors import PolicyError

_FAILED, _MISTAKE = 1, 2
_DRAFT = "policy.yaml"


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    parser = verbs.add_parser(
        "init",
        help="ask five questions and write a first policy",
        allow_abbrev=False,
        description="Write a first policy in four levels: commands, TTLs, names, schema. Level 1 is active, in audit. "
        "Answers that no option gives are asked for on the terminal. Exit status: 0, 1 if the file cannot be written, "
        "2 if an answer is missing or wrong.",
    )
    for question in QUESTIONS:
        parser.add_argument(question.option, type=_reader(question), metavar=question.metavar, help=question.text)
    parser.add_argument(
        "--out", type=_new_file, default=Path("policy.yaml"), metavar="FILE", help="the file (default: policy.yaml)"
    )
    parser.add_argument("--force", action="store_true", help="overwrite the file")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Ask, look, check, write, and say what to do next."""
    from proxy.cli.init.look import look, look_for_commands  # noqa: PLC0415  slow to import, other verbs don't need it

    missing = [question for question in QUESTIONS if getattr(parsed, question.name) is None]
    if missing and not (sys.stdin.isatty() and sys.stdout.isatty()):
        return _complain(
            *(f"{each.option} is missing, and there is no terminal to ask: {each.text}" for each in missing)
        )
    if not parsed.force and (parsed.out.exists() or parsed.out.is_symlink()):
        return _complain(_exists(parsed.out))
    logging.disable()  # the findings say it
    try:
        redis: Upstream = _answer(REDIS, parsed)
        engine = look(redis.address)
        answers = Answers(redis, *(_answer(question, parsed) for question in (FOR, TEAMS, FOREVER, APPS)))
    except EOFError:
        return _complain("the input has ended, so no policy is written")
    cluster = bool(redis.address.seeds) or (engine is not None and engine.cluster)
    known = "not reached" if engine is None else f"{engine.name} {engine.version_text}".strip()
    text = policy_text(answers, known, str(parsed.out), cluster=cluster)
    with TemporaryDirectory() as folder:
        passed, problems = _check_levels(text, Path(folder))
        if problems:
            return _complain(*(f"these answers make no valid policy: {problem}" for problem in problems))
        if engine is not None:
            look_for_commands(redis.address, Path(folder) / _DRAFT)
    return _write(text, redis, passed, parsed)


def _answer(question: Question, parsed: argparse.Namespace) -> Any:
    """The answer that an option gives, or that somebody types."""
    given = getattr(parsed, question.name)
    while given is None:
        try:
            given = question.read(input(f"{question.text} [{question.default}]: ").strip() or question.default)
        except ValueError as error:
            print(f"  {error}")
    return given


def _check_levels(text: str, folder: Path) -> tuple[list[int], list[str]]:
    """How many tests pass with each level and those before it, and what is wrong; the last draft has all levels."""
    passed: list[int] = []
    for level in LEVELS:
        draft = folder / _DRAFT
        draft.write_text(uncommented(text, LEVELS[:level]), encoding="utf-8")
        try:
            report = run_tests(load_policy(draft), time.time())
        except PolicyError as error:
            return passed, [str(problem).removeprefix(f"{folder}/") for problem in error.problems]
        if report.failed:
            return passed, [str(each).replace(f"{folder}/", "") for each in report.outcomes if not each.passed]
        passed.append(len(report.outcomes))
    return passed, []


def _write(text: str, redis: Upstream, passed: list[int], parsed: argparse.Namespace) -> int:
    try:
        with parsed.out.open("w" if parsed.force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return _complain(_exists(parsed.out))
    except OSError as error:
        return _complain(f"cannot write {parsed.out}: {error.strerror}", status=_FAILED)
    tests = ", ".join(map(str, passed))
    print(f"{parsed.out}: level 1 is active, in audit; tests that pass with levels 1, 1-2, 1-3 and 1-4: {tests}")
    _print_next(redis, parsed.out)
    return 0


def _print_next(redis: Upstream, out: Path) -> None:
    url, file = shlex.quote(redis.url), shlex.quote(str(out))
    if redis.shown != redis.url:
        url = '"$REDIS_URL"'
        print(f"Next, with REDIS_URL set to {redis.shown} (its password in place of ***):")
    else:
        print("Next:")
    print(f"  keyrail check {file}")
    print(f"  keyrail doctor --upstream {url} --policy {file}")
    print(f"  keyrail serve --upstream {url} --policy {file}")
    print(f"Then change the URL of one application to redis://{ListenAddress().host}:{ListenAddress().port}.")


def _reader(question: Question) -> Callable[[str], object]:
    def read(text: str) -> object:
        try:
            return question.read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def _new_file(text: str) -> Path:
    """The path of the policy, which stands in its comments. Raises ArgumentTypeError."""
    path = Path(text)
    if not text or not text.isprintable() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"expected a file in a folder that exists, got {text!r}")
    return path


def _exists(file: Path) -> str:
    return f"{file} exists already: --out names another file, --force overwrites it"


def _complain(*problems: str, status: int = _MISTAKE) -> int:
    for problem in problems:
        print(f"keyrail: {problem}", file=sys.stderr)
    return status
