"""One module reads words as Redis does, and no other module compares a client's bytes with words."""

import ast
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.commands.words import Keyword, word_of
from tests.program_source import trees

READING = ("commands", "hotpath", "net", "policy", "policy_yaml", "rules", "session", "wire")
"""The packages that see what clients send."""
ALLOWED = {
    "commands/words.py": "the one place",
    "commands/command.py::_printable": "how an unknown name is shown",
    "commands/generate.py::_since": "names that an engine tells",
    "commands/compressed_values.py::values_in_reply": "words that ``word_of`` has read",
    "commands/introspect.py::_described": "names that an engine tells",
    "commands/lookup.py::__init__": "names of the table",
    "commands/table.py::find": "names that Keyrail's own code or a policy tells",
    "commands/table.py::subcommands": "names that Keyrail's own code or a policy tells",
    "commands/error_texts.py::command_named": "a reply",
    "commands/wrapped.py::node_of": "the name of a node",
    "net/": "replies and configuration",
    "policy/acl/words.py": "names of the table",
    "rules/allow_only/yaml.py": "what policies say",
    "rules/known_libraries.py::names_queue": "what policies say",
    "rules/listing.py::entry_of": "what policies say",
    "rules/listing_yaml.py": "what policies say",
    "rules/scripts/lua_names.py": "texts of scripts",
    "rules/scripts/lua_reach.py": "texts of scripts",
    "rules/names/faults.py": "parts of keys",
    "rules/refusals.py::of_any": "a name of the table, shown",
    "rules/replies/rule.py": "replies",
    "rules/values/formats.py": "the first bytes of values",
    "rules/scripts/libraries.py": "replies",
    "rules/scripts/memory.py": "hexadecimal digits, and functions' names from scripts, replies and ``word_of``",
    "rules/scripts/own_keys.py::_script_of": "hexadecimal digits",
    "rules/scripts/rule.py::_unregistered": "hexadecimal digits",
    "rules/scripts/text.py": "texts of scripts, in which a name ends where its quotes do",
    "rules/scripts/yaml.py": "what policies say",
    "session/commands/keyrail_command.py": "names of the table, shown",
    "session/policy/node_questions.py": "questions of rules",
    "session/commands/pinned.py::_choose": "its caller has read the mode",
    "session/commands/tenant_flush.py::__call__": "questions of Keyrail's own",
    "session/commands/subscribe.py": "a name of the table, sent back",
    "session/cluster/subscribing.py": "names of the table, sent back",
    "session/subscription.py": "replies",
    "session/cluster/subscription_link.py": "replies, and names that Keyrail sends",
    "session/ports/info_query.py::read_options": "Keyrail's own command",
    "wire/conversion.py": "replies",
    "wire/inline.py": "escapes in quotes",
}
"""The places that fold letters or compare keywords that are no words of a client's command."""
FOLDS = {"upper", "lower", "casefold", "swapcase", "title"}
KEYWORD = re.compile(rb"[A-Za-z][A-Za-z0-9-]*|[=~$+-]")


def allowance(module: str, function: str) -> str:
    """Which line above allows it; none if empty."""
    places = (f"{module}::{function}", module, module.partition("/")[0] + "/")
    return next((place for place in places if place in ALLOWED), "")


def holds_keyword(node: ast.AST) -> bool:
    """Whether a literal, or a display of literals, has a keyword in bytes among its elements or keys."""
    match node:
        case ast.Constant(value=bytes(text)):
            return KEYWORD.fullmatch(text) is not None
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return any(map(holds_keyword, parts))
        case ast.Dict(keys=keys):
            return any(key is not None and holds_keyword(key) for key in keys)
        case ast.Call(func=ast.Name(id="frozenset" | "set" | "tuple"), args=[inner]):
            return holds_keyword(inner)
    return False


class Finder(ast.NodeVisitor):
    """The places of one module that read words by themselves. `tables` are the module's names of keywords."""

    def __init__(self, tree: ast.Module) -> None:
        self.function = ""
        self.words: set[str] = set()
        self.found: list[tuple[str, int, str]] = []
        self.tables = {
            target.id
            for node in tree.body
            for target in ([node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", []))
            if isinstance(target, ast.Name) and isinstance(node, ast.Assign | ast.AnnAssign)
            if node.value is not None and holds_keyword(node.value)
        }
        self.visit(tree)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        outer, self.function, before = self.function, node.name, self.words
        self.words = before | {
            target.id
            for each in ast.walk(node)
            if isinstance(each, ast.Assign | ast.NamedExpr) and self.reads_words(each.value)
            for target in ([each.target] if isinstance(each, ast.NamedExpr) else each.targets)
            if isinstance(target, ast.Name)
        }
        self.generic_visit(node)
        self.function, self.words = outer, before

    def reads_words(self, node: ast.AST) -> bool:
        match node:
            case ast.Call(func=ast.Name(id="word_of")):
                return True
            case ast.Subscript(value=part, slice=ast.Slice()):
                return self.reads_words(part)
            case ast.Name(id=name):
                return name in self.words or name in self.tables
            case ast.SetComp(elt=part) | ast.ListComp(elt=part) | ast.GeneratorExp(elt=part):
                return self.reads_words(part)
            case ast.IfExp(body=part, orelse=ast.Constant()):
                return self.reads_words(part)
        return holds_keyword(node)

    def is_keyword(self, node: ast.AST) -> bool:
        return holds_keyword(node) or (isinstance(node, ast.Name) and node.id in self.tables)

    def note(self, node: ast.expr, what: str) -> None:
        self.found.append((self.function, node.lineno, what))

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        if any(map(self.is_keyword, sides)) and not all(map(self.reads_words, sides)):
            self.note(node, "compares with a keyword")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        sides = [node.left, node.right]
        if (
            isinstance(node.op, ast.BitAnd)
            and any(map(self.is_keyword, sides))
            and not all(map(self.reads_words, sides))
        ):
            self.note(node, "compares with keywords")
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        table = isinstance(node.value, ast.Name | ast.Dict) and self.is_keyword(node.value)
        if self.function and table and not self.reads_words(node.slice):
            self.note(node, "looks up a keyword")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        match node.func:
            case ast.Attribute(value=value, attr="get") if self.is_keyword(value) and not self.reads_words(
                node.args[0]
            ):
                self.note(node, "looks up a keyword")
            case ast.Attribute(attr=attr) if attr in FOLDS and not node.args:
                self.note(node, f"folds letters with {attr}()")
        self.generic_visit(node)

    def visit_Match(self, node: ast.Match) -> None:
        literals = [each.value for each in ast.walk(node) if isinstance(each, ast.MatchValue)]
        if any(map(holds_keyword, literals)) and not self.reads_words(node.subject):
            self.note(node.subject, "matches keywords")
        self.generic_visit(node)


def strays(tree: ast.Module, module: str) -> Iterator[str]:
    for function, line, what in Finder(tree).found:
        if not allowance(module, function):
            yield f"proxy/{module}:{line}: {function} {what}: read it with word_of, or say here why not"


def modules() -> Iterator[tuple[ast.Module, str]]:
    return ((tree, path) for path, tree in trees().items() if path.split("/")[0] in READING)


@pytest.mark.source
def test_nothing_else_reads_words() -> None:
    assert [stray for tree, module in modules() for stray in strays(tree, module)] == []


@pytest.mark.source
def test_nothing_is_allowed_that_is_not_there() -> None:
    used = {allowance(module, function) for tree, module in modules() for function, _, _ in Finder(tree).found}
    assert ALLOWED.keys() == used


@pytest.mark.parametrize(
    "line",
    [
        'argv[1] == b"AUTH"',
        'b"AUTH" != argv[1]',
        'argv[1] in (b"NX", b"XX")',
        "argv[1] in TABLE",
        "TABLE[argv[1]]",
        "TABLE.get(argv[1], 1)",
        "argv[1].upper()",
        '{*argv} & {b"BY"}',
        'word in TABLE and argv[2] == b"~"',
    ],
)
def test_the_search_finds(line: str) -> None:
    source = f'TABLE = {{b"NX": 1}}\ndef f(argv):\n    word = word_of(argv[0])\n    return {line}\n'
    assert list(strays(ast.parse(source), "session/x.py"))
    better = re.sub(r"argv\[\d\](\.upper\(\))?|\{\*argv\}", "word", line)
    assert not list(strays(ast.parse(source.replace(line, better)), "session/x.py"))


@given(st.sampled_from([b"STORE", b"GET", b"EX", b"LIB-NAME", b"AUTH2"]), st.data())
def test_both_readers_read_alike_and_as_strcasecmp_does(keyword: bytes, data: st.DataObject) -> None:
    mixed = bytes(data.draw(st.sampled_from((byte, byte | 0x20 if 65 <= byte <= 90 else byte))) for byte in keyword)
    argument = data.draw(st.sampled_from((mixed, mixed[:-1], mixed + b"S", b"\0" + mixed, b"")))
    argument += data.draw(st.sampled_from((b"", b"\0", b"\0x", b"\0" + keyword, b"x\0")))
    until = argument.split(b"\0")[0]
    same = len(until) == len(keyword) and all(a | 0x20 == b | 0x20 for a, b in zip(until, keyword, strict=True))
    assert (word_of(argument) == keyword) is same
    around = b"xyz" + argument + b"\r\n$3\r\n"
    assert Keyword(keyword.lower()).stands_at(around, 3, 3 + len(argument)) is same


@given(st.binary(max_size=8), st.binary(max_size=6))
def test_both_readers_agree_on_any_bytes(argument: bytes, keyword: bytes) -> None:
    text = word_of(keyword)
    assert Keyword(keyword).stands_at(argument + b"\r\n", 0, len(argument)) is (word_of(argument) == text)
