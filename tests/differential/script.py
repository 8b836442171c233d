"""Command scripts: what is sent, and how alike two servers' answers to it must be.

`cases/*.txt` hold sections. A section begins with `== NAME, NAME` (the commands that it proves) and has one command to
a line, written as in redis-cli. Every section starts with an empty server and a new connection. Words before the
command say how replies compare:

    @shape    the same structure and types; the values are the server's own (times, ids, random choices)
    @sorted   the same elements in any order (hash tables are seeded per process)
    @type     the same kind of reply only
    @any      one reply; which one is a matter of the moment
    @n=2      this many frames come back (0: none); one, where nothing is said
    @until    however many frames come before the answer to a PING sent behind it
    @save=x   keep the reply's text; `$x` in later lines stands for it

Lines beginning with `!` are about the whole section: `!skip why` (not sent at all, and why), `!no-transaction why`,
`!step why` (only one command at a time) and `!once why` (in one setting of each engine only). A comment is two spaces,
`#`, and the rest of the line; a line that is not compared exactly needs one that says why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.resp import ARRAYS, CRLF, MAPS, decode, frame_end, words

CASES = Path(__file__).parent / "cases"


@dataclass(frozen=True, slots=True)
class Line:
    """One command of a script."""

    text: str
    compare: str = "exact"
    frames: int | None = 1
    save: str | None = None
    why: str = ""
    members: tuple[str, ...] = ()
    """How each member of EXEC's array compares."""

    def arguments(self, saved: dict[str, bytes]) -> list[bytes]:
        """The command's words with `$name` replaced by what was kept under that name."""
        found = words(self.text)
        return [saved.get(word[1:].decode(), word) if word[:1] == b"$" else word for word in found]


@dataclass(slots=True)
class Script:
    """One section: the commands that it is about, and its lines."""

    family: str
    names: tuple[str, ...]
    lines: list[Line] = field(default_factory=list)
    skip: str = ""
    no_transaction: str = ""
    step_only: str = ""
    once: str = ""

    @property
    def title(self) -> str:
        return ", ".join(self.names)


def _line(text: str, where: str) -> Line:
    text, _, why = text.partition("  #")
    compare, frames, save = "exact", 1, None
    frames_or_none: int | None = frames
    while match := re.match(r"@(\w+)(?:=(\S+))? +", text):
        name, value = match[1], match[2]
        text = text[match.end() :]
        if name in ("shape", "sorted", "type", "any"):
            compare = name
        elif name == "n":
            frames_or_none = int(value)
        elif name == "until":
            frames_or_none = None
        elif name == "save":
            save = value
        else:
            raise ValueError(f"{where}: no such word as @{name}")
    if compare != "exact" and not why.strip():
        raise ValueError(f"{where}: say why this is not compared exactly")
    return Line(text.strip(), compare, frames_or_none, save, why.strip())


def parse(path: Path) -> list[Script]:
    """The scripts of one file. Raises ValueError with file and line."""
    scripts: list[Script] = []
    for number, raw in enumerate(path.read_text().splitlines(), 1):
        where = f"{path.name}:{number}"
        if raw.startswith("== "):
            scripts.append(Script(path.stem, tuple(name.strip() for name in raw[3:].split(","))))
        elif raw.startswith("!"):
            word, _, why = raw[1:].partition(" ")
            if not why.strip():
                raise ValueError(f"{where}: say why")
            attribute = {"skip": "skip", "no-transaction": "no_transaction", "step": "step_only", "once": "once"}[word]
            setattr(scripts[-1], attribute, why.strip())
        elif raw.strip() and not raw.startswith("#"):
            scripts[-1].lines.append(_line(raw, where))
    return scripts


def families() -> list[str]:
    return sorted(path.stem for path in CASES.glob("*.txt"))


def scripts_of(family: str) -> list[Script]:
    return parse(CASES / f"{family}.txt")


def parts(frame: bytes) -> list[bytes]:
    """The members of an aggregate; a map's are its pairs."""
    position = frame.index(CRLF) + 2
    found = []
    while position < len(frame):
        end = frame_end(frame, position)
        found.append(frame[position:end])
        position = end
    if frame[:1] in (b"%", b"|"):
        return [b"".join(found[index : index + 2]) for index in range(0, len(found), 2)]
    return found


def shape(frame: bytes) -> str:
    """Kinds and structure of a reply without its values; an error keeps its code."""
    kind = frame[:1]
    if kind[0] in ARRAYS or kind[0] in MAPS:
        header = frame[: frame.index(CRLF)].decode()
        inner = ",".join(shape(member) for pair in parts(frame) for member in _members(pair))
        return f"{header}[{inner}]"
    if kind == b"-":
        return frame.split(b" ", 1)[0].decode()
    if frame.startswith((b"$-1", b"*-1", b"_")):
        return frame.decode()
    return kind.decode()


def _members(data: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        end = frame_end(data, position)
        yield data[position:end]
        position = end


def alike(compare: str, direct: bytes, through: bytes) -> bool:
    """Whether two replies are as equal as they must be."""
    if direct == through or compare == "any":
        return True
    if compare == "shape":
        return shape(direct) == shape(through)
    if compare == "type":
        return direct[:1] == through[:1]
    if compare == "sorted":
        if direct[:1] != through[:1] or not (direct[0] in ARRAYS or direct[0] in MAPS):
            return False
        return sorted(parts(direct)) == sorted(parts(through))
    return False


def answered_alike(line: Line, direct: bytes, through: bytes) -> bool:
    """Whether two replies to a line are as equal as they must be; EXEC's is held member by member."""
    if line.members and direct[:1] == through[:1] == b"*":
        pair = parts(direct), parts(through)
        if len(pair[0]) == len(pair[1]) == len(line.members):
            return all(alike(how, left, right) for how, left, right in zip(line.members, *pair, strict=True))
    return alike(line.compare, direct, through)


def saved_text(frame: bytes) -> bytes:
    """The part of a reply that `@save` keeps: its text or number; the first member's, of an array."""
    value = decode(frame)
    while isinstance(value, list):
        value = value[0] if value else b""
    return value if isinstance(value, bytes) else str(value).encode()
