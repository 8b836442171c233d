"""Sequences in which several clients meet: what each of them receives, in order, and when.

`sequences/*.txt` hold them, each under a line `== what it shows`; `!since 7.0` leaves older Redis out. `A: SET k v`
sends a command as client A and awaits one reply; what stands between the name and the colon changes that:

    A!: BLPOP k 0       send, await nothing          A3: SUBSCRIBE x y z   await three frames
    A~: CLIENT ID       values may differ            A<                    await one more frame
    A<3                 await three more             A<~                   await one whose values may differ
    A.                  nothing at all arrives       A>                    the other side closes
    A-                  A leaves                     A@3                   A connects in RESP3 (default: RESP2)
    ?clients blocked_clients 1                       await this field of the engine's INFO
    ?subscribers x 2                                 await that a channel has so many subscribers
    ?idle               give the engine time to finish what it was told
    ?busy               await that a script keeps the engine busy
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.differential.script import alike, saved_text
from tests.engines import Engine
from tests.resp import PATIENCE_SECONDS, Address, Closed, Wire, pack, words

QUIET_SECONDS = 0.04
NOTHING_CAME = b"<nothing came"
OF_KEYRAIL = re.compile(
    rb'\+\d+\.\d+ \[\d+ \S+\] "(?:PING"|(?:HELLO|INFO|ROLE|CLIENT|COMMAND|CONFIG|ACL|SELECT)").*\r\n'
)
"""What MONITOR shows of any Keyrail before the engine: a PING each second, and what it asks on a new connection."""

LINE = re.compile(
    r"^(?P<who>[A-Z])(?P<what>[!~<>.@-]*)(?P<count>\d*)(?P<loose>~?)(?::\s*(?P<save>\w+=)?\s*(?P<text>.*))?$"
)


SEQUENCES = Path(__file__).parent / "sequences"


@dataclass(slots=True)
class Sequence:
    """The purpose of a sequence, and the lines that clients act out."""

    name: str
    lines: list[str] = field(default_factory=list)
    since: tuple[int, ...] = (0,)


def families() -> list[str]:
    return sorted(path.stem for path in SEQUENCES.glob("*.txt"))


def sequences_of(family: str) -> list[Sequence]:
    """The sequences of one file."""
    found: list[Sequence] = []
    for line in (SEQUENCES / f"{family}.txt").read_text().splitlines():
        if line.startswith("== "):
            found.append(Sequence(line[3:].strip()))
        elif line.startswith("!since "):
            found[-1].since = tuple(int(part) for part in line[7:].split("."))
        elif line.strip():
            found[-1].lines.append(line)
    return found


@dataclass(frozen=True, slots=True)
class Heard:
    """The result of one line of a sequence."""

    line: str
    frames: tuple[bytes, ...]
    loose: bool = False


@dataclass(slots=True)
class Stage:
    """The clients of one run, all connected to the same address."""

    address: Address
    engine: Engine
    clients: dict[str, Wire] = field(default_factory=dict)
    saved: dict[str, bytes] = field(default_factory=dict)

    def client(self, name: str, protocol: int = 2) -> Wire:
        if name not in self.clients:
            self.clients[name] = Wire(self.address, protocol=protocol)
        return self.clients[name]

    def play(self, sequence: Sequence) -> list[Heard]:
        """Act it out to its end, or to the first line at which nothing comes that should."""
        heard: list[Heard] = []
        try:
            for line in sequence.lines:
                heard.append(self.act(line))
                if heard[-1].frames[-1:] and heard[-1].frames[-1].startswith(b"<"):
                    break
        finally:
            for wire in self.clients.values():
                wire.close()
        return heard

    def act(self, line: str) -> Heard:
        if line.startswith("?"):
            self.wait(line[1:].split())
            return Heard(line, ())
        match = LINE.match(line)
        if match is None:
            raise ValueError(f"no line of a sequence: {line!r}")
        what, count = match["what"], int(match["count"] or 1)
        if "@" in what:
            self.client(match["who"], count)
            return Heard(line, ())
        loose = "~" in what or bool(match["loose"])
        wire = self.client(match["who"])
        try:
            if match["text"] is not None:
                said = words(match["text"])
                wire.send(pack(*(self.saved.get(w[1:].decode(), w) if w[:1] == b"$" else w for w in said)))
            frames = self.listen(wire, what, count)
        except Closed as closed:
            frames = [b"<closed>" + closed.rest]
        except TimeoutError as error:
            frames = [NOTHING_CAME + b": %s>" % str(error).encode()]
        except OSError:
            frames = [b"<closed>"]
        if match["save"]:
            self.saved[match["save"][:-1]] = saved_text(frames[0])
        return Heard(line, tuple(frames), loose)

    def listen(self, wire: Wire, what: str, count: int) -> list[bytes]:
        if "-" in what:
            wire.close()
            return []
        if "." in what:
            return [] if wire.silent(QUIET_SECONDS) else [b"(not silent)", wire.frame()]
        if ">" in what:
            return [frame for frame in wire.remaining() if not OF_KEYRAIL.fullmatch(frame)]
        return [] if "!" in what else [_next(wire) for _ in range(count)]

    def wait(self, condition: list[str]) -> None:
        if condition == ["idle"]:
            time.sleep(QUIET_SECONDS)
        elif condition == ["busy"]:
            with self.engine.wire() as direct:
                self.until(lambda: direct.ask("PING").startswith(b"-BUSY"), condition)
        elif condition[0] == "subscribers":
            channel, number = condition[1].encode(), int(condition[2])
            self.until(lambda: self.engine.do("PUBSUB", "NUMSUB", channel) == [channel, number], condition)
        else:
            section, name, expected = condition
            self.engine.await_info(section, name, expected)

    def until(self, holds: Callable[[], bool], condition: list[str]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"it never came to that: {' '.join(condition)}")
            time.sleep(0.005)


def differences(sequence: Sequence, direct: list[Heard], through: list[Heard]) -> list[str]:
    """The difference between two runs, in words; and where a direct client waits in vain, since such a sequence shows
    nothing."""
    found = [
        f"[{sequence.name}] {ours.line}\n   direct: {list(ours.frames)!r}"
        for ours in direct
        if any(frame.startswith(NOTHING_CAME) for frame in ours.frames)
    ]
    for ours, theirs in zip(direct, through, strict=False):
        compare = "shape" if ours.loose else "exact"
        same = len(ours.frames) == len(theirs.frames) and all(
            alike(compare, left, right) for left, right in zip(ours.frames, theirs.frames, strict=True)
        )
        if not same:
            answers = f"\n   direct: {list(ours.frames)!r}\n  keyrail: {list(theirs.frames)!r}"
            found.append(f"[{sequence.name}] {ours.line}{answers}")
    if len(direct) != len(through) and not found:
        found.append(f"[{sequence.name}] direct went on for {len(direct)} lines, keyrail for {len(through)}")
    return found


def _next(wire: Wire) -> bytes:
    while OF_KEYRAIL.fullmatch(frame := wire.frame()):
        pass
    return frame
