"""One table says what the texts of errors decide, who else can make them and what proves them; nothing else reads them.

The compiled functions of the hot path find the same words as the rows that they stand for.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.commands import error_texts
from proxy.commands.error_texts import (
    READ_ONLY,
    REDIRECTED,
    REFUSES_COMMAND,
    REPLICA_REFUSES,
    CommandTexts,
    EngineTexts,
    ErrorTexts,
    Hints,
    command_named,
    endpoint_named,
)
from proxy.hotpath.upstream import error_words
from tests.program_source import trees

TABLE = "commands/error_texts.py"
HOT = "hotpath/upstream/error_words.py"
ROWS = {name: row for name, row in vars(error_texts).items() if isinstance(row, ErrorTexts)}
READERS = {"endpoint_named": ("net/follow/nodes.py",), "command_named": ("net/policy/rights.py",)}
WORD = re.compile(rb"(?:-(?:\(\?:)?)?[A-Z]{3,}")
ANY_WORD = re.compile(r"""b["']-?(?:\(\?:)?[A-Z]{3}|p\[i \+ 1""")
FINDS = {"startswith", "removeprefix", "find", "index", "match", "fullmatch", "search", "compile"}


def error_words_in(node: ast.AST, names: Mapping[str, ast.AST], *, dashed: bool) -> bool:
    """Whether some literal of an expression, or of a module's constant that it names, is the word of an error."""
    for each in ast.walk(node):
        match each:
            case ast.Constant(value=bytes(text)):
                if WORD.match(text) is not None and (text.startswith(b"-") or not dashed):
                    return True
            case ast.Name(id=name) if name in names and names[name] is not node:
                rest = {other: value for other, value in names.items() if other != name}
                if error_words_in(names[name], rest, dashed=dashed):
                    return True
    return False


def strays(tree: ast.Module, module: str) -> Iterator[str]:
    """The places where a module compares a reply with the words of errors by itself."""
    names = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr):
            continue
        match node:
            case ast.Call(func=ast.Attribute(attr=attr), args=args) if attr in FINDS:
                found = any(error_words_in(each, names, dashed=True) for each in args)
            case ast.Compare(left=left, comparators=others, ops=ops):
                # A whole error that Keyrail itself has made may be told from others.
                contained = any(isinstance(op, ast.In | ast.NotIn) for op in ops)
                sides = [left, *others]
                found = contained and any(error_words_in(each, names, dashed=True) for each in sides)
                found |= any(_is_slice(a) and error_words_in(b, names, dashed=False) for a, b in _pairs(sides))
            case ast.BoolOp(values=values):
                found = module != HOT and sum(_compares_a_letter(each) for each in values) > 1
            case _:
                found = False
        if found:
            yield f"proxy/{module}:{node.lineno}: compares the text of an error: it belongs into {TABLE}"


def _pairs(sides: list[ast.expr]) -> Iterator[tuple[ast.expr, ast.expr]]:
    for a, b in pairwise(sides):
        yield a, b
        yield b, a


def _is_slice(node: ast.AST) -> bool:
    # Of a reply; words of commands are read by ``word_of`` (``test_words.py``).
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and "frame" in ast.unparse(node)


def _is_letter(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and 65 <= node.value <= 90


def _compares_a_letter(node: ast.AST) -> bool:
    match node:
        case ast.Compare(left=ast.Subscript(), ops=[ast.Eq() | ast.NotEq()], comparators=[number]):
            return _is_letter(number)
    return False


def modules() -> Iterator[tuple[ast.Module, str]]:
    return ((tree, name) for name, tree in trees().items() if name != TABLE)


@pytest.mark.source
def test_nothing_else_reads_the_text_of_an_error() -> None:
    assert [stray for tree, module in modules() for stray in strays(tree, module)] == []


@pytest.mark.parametrize(
    "line",
    [
        'reply.startswith(b"-NOSCRIPT")',
        "reply.startswith(_NOT_RUN)",
        "reply.startswith((b'+', *_SEVERAL))",
        'b"-MOVED " in reply',
        'reply.removeprefix(b"-ASK ")',
        'frame[1:9] == b"LOADING "',
        're.compile(rb"-(?:MOVED|ASK) x|-OOM")',
        're.compile(rb"-OOM .*")',
        "p[i + 1] == 77 and p[i + 2] == 79",
    ],
)
def test_such_places_are_found(line: str) -> None:
    source = f'_NOT_RUN = b"-NOSCRIPT"\n_SEVERAL = (b"-LOADING ", b"-BUSY ")\ndef f(reply, frame, p, i):\n    {line}\n'
    assert len(list(strays(ast.parse(source), "made_up.py"))) >= 1


def test_what_is_no_text_of_an_error_is_not_found() -> None:
    source = '_OWN = b"-CLUSTERDOWN keyrail\\r\\n"\ndef f(frame):\n    frame.startswith(b"-")\n    return _OWN\n'
    assert list(strays(ast.parse(source), "made_up.py")) == []


@pytest.mark.source
def test_each_row_says_where_it_decides() -> None:
    """Who uses a row elsewhere has to see whether its proof holds there, too."""
    used: dict[str, set[str]] = {name: set() for name in (*ROWS, *READERS)}
    for tree, module in modules():
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module == "proxy.commands.error_texts":
                for each in node.names:
                    used[each.name].add(module)
    stated = {name: set(row.used_in) - {HOT} for name, row in ROWS.items()}
    assert used == stated | {name: set(where) for name, where in READERS.items()}
    assert {name for name, row in ROWS.items() if HOT in row.used_in} == {
        "READ_ONLY",
        "REDIRECTED",
        "REFUSES_COMMAND",
        "REPLICA_REFUSES",
    }
    assert all(row.answers and row.proof and row.used_in for row in ROWS.values())


def test_no_decision_is_about_the_text_of_what_a_script_returns() -> None:
    """What clients' commands answer is of a type that asks whether they make errors of their own, or is a hint."""
    for name, row in ROWS.items():
        of_client = "client's" in row.answers or row.answers.startswith("any ")
        assert isinstance(row, CommandTexts | Hints) or not of_client, name
    for row in ROWS.values():
        if isinstance(row, CommandTexts):
            for beginning in row.beginnings:
                assert row.begin(beginning, own_errors=False)
                assert not row.begin(beginning, own_errors=True)


HOT_ROWS = (
    (error_words.redirected, REDIRECTED),
    (error_words.unable, REPLICA_REFUSES),
    (error_words.read_only, READ_ONLY),
    (error_words.refuses_command, REFUSES_COMMAND),
)
BEGINNINGS = sorted({beginning for row in ROWS.values() for beginning in row.beginnings})
TEXTS = st.one_of(
    st.sampled_from(BEGINNINGS),
    st.builds(lambda word, n: word[:n], st.sampled_from(BEGINNINGS), st.integers(1, 12)),
    st.builds(
        lambda word, n, byte: word[:n] + bytes([byte]) + word[n + 1 :],
        st.sampled_from(BEGINNINGS),
        st.integers(1, 12),
        st.integers(32, 126),
    ),
    st.binary(max_size=16).map(lambda text: b"-" + re.sub(rb"[\r\n]", b"", text)),
)


@given(text=TEXTS, before=st.binary(max_size=3), rest=st.sampled_from([b"", b" x", b"x 1 h:1"]))
@example(text=b"-BUSYKEY ", before=b"", rest=b"")
@example(text=b"-READONL", before=b"", rest=b"")
def test_the_hot_path_finds_the_words_of_its_rows(text: bytes, before: bytes, rest: bytes) -> None:
    line = text.rstrip(b"\r") + rest + b"\r\n"
    data, end = before + line + b"-NOPERM x\r\n", len(before) + len(line)
    for found, row in HOT_ROWS:
        # What is redirected is looked for first.
        expected = row.hinted(line) and not (row is REPLICA_REFUSES and REDIRECTED.hinted(line))
        got = bool(found(data, len(before), end)) and not (row is REPLICA_REFUSES and REDIRECTED.hinted(line))
        assert got == expected, (row.beginnings, line)


def test_what_an_error_names() -> None:
    assert endpoint_named(b"-MOVED 1 10.0.0.1:7000\r\n") == (b"10.0.0.1", 7000)
    assert endpoint_named(b"-ASK 16383 ::1:7000\r\n") == (b"::1", 7000)
    assert endpoint_named(b"-MOVED\r\n") is None
    assert command_named(b"-ERR unknown command 'client|list'\r\n") == "CLIENT"
    assert command_named(b"-NOPERM this user has no permissions to run the 'get' command\r\n") == "GET"
    assert command_named(b"-ERR what\r\n") == ""


def test_a_word_is_read_to_its_end() -> None:
    row = EngineTexts("BUSY ", answers="PING", proof="-", used_in=("-",))
    assert [row.begin(line) for line in (b"-BUSY x\r\n", b"-BUSY\r\n", b"-BUSYKEY x\r\n")] == [True, True, False]
