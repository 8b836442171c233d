"""One library in its own process: `python -m tests.libraries.run rq` takes orders on stdin, a line each.

It prints `ready`, or `missing` and what it lacks. `use URL` begins a session, which prints `restart` when Redis must be
restarted and continues after `go`; `work URL` runs the library's own worker. Either ends with `done`, or with `failed`
and the error as JSON.
"""

import importlib
import json
import logging
import os
import sys
import traceback
from types import ModuleType
from typing import TextIO


def main(name: str, answers: TextIO) -> None:
    """Take orders until stdin ends."""
    try:
        session = importlib.import_module(f"tests.libraries.sessions.{name}")
    except ImportError as error:
        print("missing", error, file=answers, flush=True)
        return
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        order, url = line.split()
        try:
            _run(session, order, url, answers)
        except BaseException as error:  # noqa: BLE001 - some libraries raise SystemExit where they fail
            traceback.print_exc()
            print("failed", json.dumps(_text(error)), file=answers, flush=True)
        else:
            print("done", file=answers, flush=True)


def _run(session: ModuleType, order: str, url: str, answers: TextIO) -> None:
    if order == "work":
        if hasattr(session, "work"):
            session.work(url)
        return
    for _ in session.use(url):
        print("restart", file=answers, flush=True)
        assert sys.stdin.readline() == "go\n"


def _text(error: BaseException) -> str:
    """The error with what led to it, since libraries wrap what Redis says. It may have led to itself."""
    chain: list[BaseException] = []
    found: BaseException | None = error
    while found is not None and found not in chain:
        chain.append(found)
        found = found.__cause__ or found.__context__
    return " <- ".join(f"{type(each).__name__}: {each}" for each in chain)


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr)
    own_stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever the library prints
    main(sys.argv[1], own_stdout)
