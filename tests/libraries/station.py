"""An engine, a Keyrail with an exchangeable policy in front of it, and a library's process that uses them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.conftest import kind_named
from tests.engines import Engine
from tests.keyrail_process import Keyrail
from tests.resp import Closed, eventually

ENGINE = "valkey-9.1"
JOBS = "jobs:secret@"
"""How a client logs in as the user of strict.yaml's app `jobs`."""
ANSWER_SECONDS = 90.0
"""For whole sessions of a library, on a machine that does much else."""
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


class Missing(Exception):
    """The library, or what runs it, is not installed here."""


class Library:
    """One library's process."""

    def __init__(self, session: str) -> None:
        command = [sys.executable, "-m", "tests.libraries.run", session]
        if (HERE / "sessions" / f"{session}.cjs").exists():
            node = shutil.which("node")
            if node is None:
                raise Missing("node is not installed here")
            command = [node, str(HERE / "run.cjs"), session]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - open for as long as the process runs
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,  # with the workers that it starts
        )
        ready = self._hear()
        if ready != "ready":
            self.close()
            raise Missing(ready)

    def ask(self, order: str) -> str:
        """Give an order and return the answer. Raises AssertionError where none comes."""
        if self._process.stdin is None:
            raise AssertionError("stdin is a pipe")
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()
        return self._hear()

    def stderr(self) -> str:
        """The last of what it said there."""
        self._errors.seek(0)
        return self._errors.read()[-5000:]

    def _hear(self) -> str:
        if self._process.stdout is None:
            raise AssertionError("stdout is a pipe")
        ready = select.select([self._process.stdout], [], [], ANSWER_SECONDS)[0]
        answer = self._process.stdout.readline().strip() if ready else ""
        if not answer:
            raise AssertionError(f"no answer; its stderr:\n{self.stderr()}")
        return answer

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


class Station:
    """One engine and one Keyrail, for one session after the other."""

    def __init__(self) -> None:
        self.engine = Engine(kind_named(ENGINE), {"user": "jobs on >secret ~* &* +@all"})
        self._folder = tempfile.TemporaryDirectory(prefix="keyrail-libraries-")
        self._policy = Path(self._folder.name) / "policy.yaml"
        self._text = "keyrail: 1\nrules: {}\n"
        self._generation = 1
        self._policy.write_text(self._text)
        self.keyrail = Keyrail(self.engine.url, policy=self._policy, extra=["--watch", "off"])

    def close(self) -> None:
        self.keyrail.close()
        self.engine.close()
        self._folder.cleanup()

    def url(self, login: str = "") -> str:
        return f"redis://{login}127.0.0.1:{self.keyrail.address.port}/0"

    def prepare(self, policy: str) -> None:
        """An empty engine, and this policy."""
        self.engine.do("FLUSHALL")
        self.engine.do("SCRIPT", "FLUSH")
        if policy == self._text:
            return
        self._text = policy
        self._policy.write_text(policy)
        self._generation += 1
        self.keyrail.process.send_signal(signal.SIGHUP)
        self.keyrail.await_line(rf"^keyrail: policies reloaded: generation {self._generation}$")

    def restart(self) -> None:
        """Redis dies, with all data and scripts, and comes back."""
        self.engine.kill()
        self.engine.start()
        eventually(lambda: self.keyrail.http("/readyz")[0] == 200)
        eventually(self._answers)  # upon a new connection Keyrail closes those who relied on what Redis has lost

    def _answers(self) -> bool:
        try:
            with self.keyrail.wire() as wire:
                return wire.ask("PING") == b"+PONG\r\n"
        except (Closed, ConnectionError):
            return False

    def whole(self, library: Library, login: str = "") -> str:
        """The error of a whole session, through a restart of Redis; nothing if it succeeded."""
        answer = library.ask(f"use {self.url(login)}")
        if answer == "restart":
            self.restart()
            answer = library.ask("go")
        return "" if answer == "done" else f"{answer}; its stderr:\n{library.stderr()}"

    def refused(self, library: Library, rule: str) -> str:
        """The fault of a refusal: it must come from this rule, and before anything was changed."""
        answer = library.ask(f"use {self.url()}")
        text = json.loads(answer.removeprefix("failed")) if answer.startswith("failed") else ""
        if f"DENIED keyrail/{rule}: " not in text:
            return f"expected a refusal by {rule}, got {answer}"
        library.ask(f"work {self.url()}")
        keys = self.engine.do("KEYS", "*")
        return f"refused by {rule}, and these keys are left: {keys!r}" if keys else ""

    def lifetimes_of_jobs(self) -> float:
        """How many commands of the app `jobs` a rule has added a TTL to, under any policy so far."""
        rules = ("nothing-for-ever", "lifetimes")
        done = ("rewritten", "followed")
        metric = self.keyrail.metric
        return sum(
            metric("keyrail_verdicts_total", app="jobs", mode="enforce", rule=rule, what=what)
            for rule in rules
            for what in done
        )
