"""A terminal for README's `console` blocks: each line after `$ ` is a command, the rest is its output.

One bash runs all of them, so variables, files and background jobs last from block to block. It writes to a
pseudo-terminal, since redis-cli prints more to people than to pipes. In README's output, `…` stands for anything within
a line, and a line that is only `…` for any number of lines.
"""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.resp import PATIENCE_SECONDS

_END = "\x1e"
_WRITTEN_OVER = re.compile("[^\n]*\r\x1b\\[K")


@dataclass(frozen=True)
class Step:
    """One command, and what README says that it shows."""

    command: str
    shown: str


def steps(text: str) -> list[Step]:
    """The commands of a `console` block; one goes on in the next line after a backslash."""
    joined = text.replace("\\\n", "")
    parts = re.split(r"^\$ (.*)$", joined, flags=re.MULTILINE)
    if parts[0].strip():
        raise ValueError(f"a console block begins with a command, not with {parts[0]!r}")
    return [Step(command, shown.strip("\n")) for command, shown in zip(parts[1::2], parts[2::2], strict=True)]


def pattern(shown: str) -> re.Pattern[str]:
    """The pattern of output that matches the text that README shows; columns may be of another width, as port numbers
    are."""
    return re.compile(r"\s*" + "".join(_line(line.strip()) for line in shown.splitlines()) + r"\s*")


def _line(shown: str) -> str:
    # What follows an ellipsis is looked for once, at its first place: all places of several ellipses take hours.
    if shown == "…":
        return r"(?:.*\n)*?"
    words = r"[ ]+".join(re.escape(word) for word in shown.split())
    first, *others = (words + r"[ ]*(?:\n|\Z)").split("…")
    return "[ ]*" + first + "".join(f"(?>.*?{each})" for each in others)


def _left_on_screen(written: str) -> str:
    """What a person sees in the end: lines of progress that were written over are gone."""
    return _WRITTEN_OVER.sub("", written.replace(_END, ""))


class Terminal:
    """A bash in a folder, with a pseudo-terminal for its output."""

    def __init__(self, folder: Path, environment: Mapping[str, str], passed: Sequence[int] = ()) -> None:
        """Commands inherit the descriptors that are `passed`."""
        self.lost = False
        """Whether a command did not show what it should: what comes after it cannot be relied upon."""
        self._screen, screen = pty.openpty()
        settings = termios.tcgetattr(screen)
        settings[1] &= ~termios.OPOST  # no carriage returns in what is compared
        termios.tcsetattr(screen, termios.TCSANOW, settings)
        termios.tcsetwinsize(screen, (50, 400))
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=screen,
            stderr=screen,
            start_new_session=True,
            pass_fds=passed,
        )
        os.close(screen)

    def run(self, step: Step, *, again: bool = False) -> str | None:
        """Type a command and wait until it has ended and shows what it should; what it showed instead, if it did.

        With `again`, it is typed until it shows that, as people do who look at figures.
        """
        end = time.monotonic() + 2 * PATIENCE_SECONDS
        while True:
            differs = self._type(step, end, whole=again)
            if differs is None or not again or time.monotonic() > end:
                return differs
            time.sleep(0.1)

    def _type(self, step: Step, end: float, *, whole: bool) -> str | None:
        """Type it once; with `whole`, what it shows is what it has shown when it ends."""
        assert self._bash.stdin is not None, "its input is a pipe"
        self._bash.stdin.write(f"{step.command}\nprintf '{_END}'\n".encode())
        self._bash.stdin.flush()
        expected = pattern(step.shown)
        seen = ""
        while not (_END in seen and expected.fullmatch(_left_on_screen(seen))):
            if whole and _END in seen:
                return _left_on_screen(seen)
            if not select.select([self._screen], [], [], max(0.0, end - time.monotonic()))[0]:
                return _left_on_screen(seen)
            seen += os.read(self._screen, 65536).decode(errors="replace")
        return None

    def close(self) -> None:
        """End the shell and all that it has started."""
        os.killpg(self._bash.pid, signal.SIGTERM)
        self._bash.communicate()
        os.close(self._screen)
