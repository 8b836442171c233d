"""Runs a script against one server in one of several ways of sending it, and compares the answers of two servers.

The ways differ in the bytes that reach a proxy's parser and reply queue at once: one command at a time, all in one
write, in pieces of a few bytes, as inline commands, and inside MULTI…EXEC (arriving whole, or command by command).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.differential.script import Line, Script, answered_alike, saved_text, shape
from tests.resp import Address, Closed, Malformed, Wire, pack

TIMEOUT = 30.0
FENCE = b"keyrail-fence"
MULTI = Line("MULTI")


@dataclass(frozen=True, slots=True)
class Answer:
    """A line and the frames that answered it; the last may be a note <in brackets> that says why there are no more."""

    line: Line
    frames: tuple[bytes, ...]

    @property
    def broken(self) -> bool:
        return bool(self.frames) and self.frames[-1].startswith(b"<")


class Session:
    """One connection on which a script runs."""

    def __init__(self, address: Address, protocol: int) -> None:
        self.wire = Wire(address, protocol=protocol, timeout=TIMEOUT)
        self.saved: dict[str, bytes] = {}
        self.fences = 0

    def fence(self) -> bytes:
        self.fences += 1
        return b"%s-%d" % (FENCE, self.fences)

    def bytes_of(self, line: Line) -> bytes:
        data = pack(*line.arguments(self.saved))
        if line.frames is None:
            data += pack("PING", self.fence())
        return data

    def receive(self, line: Line) -> Answer:
        frames: list[bytes] = []
        try:
            while line.frames is None or len(frames) < line.frames:
                frame = self.wire.frame()
                if line.frames is None and FENCE in frame:
                    break
                frames.append(frame)
        except Closed as closed:
            frames.append(b"<closed>" + closed.rest)
        except TimeoutError:
            frames.append(b"<nothing came for %d s>" % TIMEOUT + self.wire.reader.rest()[:200])
        except Malformed as malformed:
            frames.append(b"<no reply of Redis: %s>" % str(malformed).encode())
        if line.save is not None and frames and not frames[-1].startswith(b"<"):
            self.saved[line.save] = saved_text(frames[0])
        return Answer(line, tuple(frames))

    def end(self) -> Answer:
        """No more replies are pending: the next reply answers a PING that only now is sent."""
        last = Line("PING (no more replies are pending)")
        try:
            self.wire.say("PING", fence := self.fence())
            frame = self.wire.frame()
            return Answer(last, () if fence in frame else (frame,))
        except TimeoutError:
            return Answer(last, (b"<no answer>",))
        except (Closed, OSError):
            return Answer(last, (b"<closed>",))


def step(session: Session, lines: list[Line], _: random.Random) -> Iterator[Answer]:
    """One command at a time, each reply awaited."""
    for line in lines:
        try:
            session.wire.send(session.bytes_of(line))
        except OSError:
            yield Answer(line, (b"<closed>",))
            return
        yield (answer := session.receive(line))
        if answer.broken:
            return


def _batches(lines: list[Line]) -> Iterator[list[Line]]:
    """Runs of lines that can be sent at once: a line that needs an earlier reply begins a new one."""
    batch: list[Line] = []
    for line in lines:
        waits = any(f"${earlier.save}" in line.text for earlier in batch if earlier.save)
        if waits:
            yield batch
            batch = []
        batch.append(line)
    yield batch


def _at_once(session: Session, lines: list[Line], send: Callable[[list[Line]], None]) -> Iterator[Answer]:
    for batch in _batches(lines):
        try:
            send(batch)
        except OSError:
            yield Answer(batch[0], (b"<closed>",))
            return
        for line in batch:
            yield (answer := session.receive(line))
            if answer.broken:
                return


def pipeline(session: Session, lines: list[Line], _: random.Random) -> Iterator[Answer]:
    """Send as many commands in one write as possible."""
    return _at_once(session, lines, lambda batch: session.wire.send(b"".join(map(session.bytes_of, batch))))


def scraps(session: Session, lines: list[Line], chance: random.Random) -> Iterator[Answer]:
    """The pipeline cut at random places, each piece a write of its own."""

    def send(batch: list[Line]) -> None:
        data = b"".join(map(session.bytes_of, batch))
        position = 0
        while position < len(data):
            size = chance.choice((1, 1, 2, 3, 5, 8, 40))
            session.wire.send(data[position : position + size])
            position += size

    return _at_once(session, lines, send)


def _as_inline(arguments: list[bytes], chance: random.Random) -> bytes:
    name = bytes(chance.choice((chr(byte).lower(), chr(byte).upper())).encode()[0] for byte in arguments[0])
    quoted = []
    for argument in arguments[1:]:
        plain = argument.isalnum() or (argument.isascii() and argument and not set(argument) & set(b" \t\r\n\"'\\\0"))
        escaped = b"".join(b"\\x%02x" % byte for byte in argument)
        quoted.append(argument if plain else b'"%s"' % escaped)
    return b" ".join([name, *quoted]) + chance.choice((b"\r\n", b"\n", b"\r\n\r\n"))


def inline(session: Session, lines: list[Line], chance: random.Random) -> Iterator[Answer]:
    """Send them as somebody types them into telnet, in any letter case, with blank lines between."""

    def send(batch: list[Line]) -> None:
        data = b""
        for line in batch:
            data += _as_inline(line.arguments(session.saved), chance)
            if line.frames is None:
                data += pack("PING", session.fence())
        session.wire.send(data)

    return _at_once(session, lines, send)


def _in_transaction(lines: list[Line]) -> list[Line]:
    """The lines that can stand in a transaction, and EXEC, whose array's members compare as the lines do."""
    kept = [line for line in lines if line.save is None and "$" not in line.text and line.frames == 1]
    return [MULTI, *(Line(line.text) for line in kept), Line("EXEC", members=tuple(line.compare for line in kept))]


def transaction(session: Session, lines: list[Line], chance: random.Random) -> Iterator[Answer]:
    """MULTI, the commands and EXEC in one write."""
    return pipeline(session, _in_transaction(lines), chance)


def slow_transaction(session: Session, lines: list[Line], chance: random.Random) -> Iterator[Answer]:
    """MULTI, the commands and EXEC, each reply awaited."""
    return step(session, _in_transaction(lines), chance)


Way = Callable[[Session, list[Line], random.Random], Iterator[Answer]]
WAYS: dict[str, Way] = {
    "step": step,
    "pipeline": pipeline,
    "scraps": scraps,
    "inline": inline,
    "transaction": transaction,
    "slow-transaction": slow_transaction,
}


def sensible(way: str, protocol: int, pooling: bool) -> bool:
    """Whether a way of sending can show something here that it does not show elsewhere, since time is short: how
    inline text is read and how requests are cut depends on no protocol, and without a pool each client has an upstream
    of its own."""
    if way in ("inline", "scraps"):
        return protocol == 2 and (pooling or way == "scraps")
    return pooling or way not in ("pipeline", "slow-transaction")


def applies(script: Script, way: str, protocol: int, pooling: bool) -> bool:
    if script.skip:
        return False
    if script.once:
        return (way, protocol, pooling) == ("step", 2, True)
    if script.step_only:
        return way == "step"
    return not (script.no_transaction and "transaction" in way)


def run(way: str, script: Script, address: Address, protocol: int) -> list[Answer]:
    """All answers to a script on a new connection; the last one says that no more replies were pending."""
    session = Session(address, protocol)
    try:
        answers = list(WAYS[way](session, script.lines, random.Random(script.title)))
        answers.append(session.end())
        return answers
    finally:
        session.wire.close()


def differences(script: Script, direct: list[Answer], through: list[Answer]) -> list[str]:
    """The first difference, in words: command, direct bytes, Keyrail's bytes."""
    found = []
    for ours, theirs in zip(direct, through, strict=False):
        same = len(ours.frames) == len(theirs.frames) and all(
            answered_alike(ours.line, left, right) for left, right in zip(ours.frames, theirs.frames, strict=True)
        )
        if not same:
            found.append(
                f"[{script.title}] {ours.line.text}\n   direct: {group_info(ours)}\n  keyrail: {group_info(theirs)}"
            )
    if len(direct) != len(through) and not found:
        found.append(f"[{script.title}] direct gave {len(direct)} answers, keyrail {len(through)}")
    return found


def group_info(answer: Answer) -> str:
    text = b" ".join(answer.frames)
    kept = repr(text[:300]) + (f"… ({len(text)} bytes)" if len(text) > 300 else "")
    return f"{kept} {[shape(frame)[:300] for frame in answer.frames]}" if answer.line.compare == "shape" else kept
