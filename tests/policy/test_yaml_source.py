"""YAML is read strictly: scalars stay text (`off` is not False), equal keys are a problem, and so are tags, anchors,
aliases, several documents and deep nesting. Each problem has its line."""

from pathlib import Path

import pytest

from proxy.policy_yaml.yaml_source import Mapping, Problems, Scalar, Sequence, read_yaml


def read(tmp_path: Path, text: str | bytes) -> tuple[object, list[str]]:
    file = tmp_path / "f.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    problems = Problems()
    value = read_yaml(file, problems)
    return value, [str(problem).replace(str(file), "f") for problem in problems.found]


@pytest.mark.parametrize(
    "text", ["off", "on", "yes", "no", "~", "null", "1", "0x10", "1.5", "2027-01-15", "5m", "1:30"]
)
def test_scalars_stay_as_they_are_written(tmp_path: Path, text: str) -> None:
    value, problems = read(tmp_path, f"a: {text}")
    assert problems == []
    assert isinstance(value, Mapping)
    scalar = value.entries["a"]
    assert isinstance(scalar, Scalar)
    assert scalar.text == text


def test_values_know_their_lines_and_paths(tmp_path: Path) -> None:
    value, problems = read(tmp_path, "a:\n  b:\n    - x\n    - {c: d}\n")
    assert problems == []
    assert isinstance(value, Mapping)
    inner = value.entries["a"]
    assert isinstance(inner, Mapping)
    items = inner.entries["b"]
    assert isinstance(items, Sequence)
    last = items.items[1]
    assert isinstance(last, Mapping)
    assert (last.where.line, last.path) == (4, "a.b[1]")
    assert last.entries["c"].path == "a.b[1].c"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: 2\na: 3\n", "f:3: a: found a second time, expected it once (first in line 1)"),
        ("a:\n  b: 1\n  b: 1\n", "f:3: a.b: found a second time, expected it once (first in line 2)"),
        ("a: !!python/object:os.system x", "f:1: a: found the tag 'tag:yaml.org,2002:python/object:os.system', "),
        ("a: !secret x", "f:1: a: found the tag '!secret', expected a value without a tag"),
        ("a: &x 1", "f:1: found an anchor or alias, expected plain values"),
        ("a: 1\nb: *x", "f:2: found an anchor or alias, expected plain values"),
        ("? [a]\n: b", "f:1: found a key that is not text, expected text"),
        ("a: 1\nb: [1\nc: 2\n", "f:3: found a second ': ', expected ',' or ']', or quotes around text that holds ': '"),
        ("a: 1\nb: [1,\n2\n", "f:2: found a [ that is not closed, expected a ] behind it"),
        ("a: 1\nb: 'x\nc: 1\n", "f:2: found a quote that is not closed, expected another quote behind it"),
        ("a: [1}", "f:1: found '}', expected ',' or ']'"),
        ("a: {b: c: d}", "f:1: found a second ': ', expected ',' or '}', or quotes around text that holds ': '"),
        (
            "a: b: c",
            "f:1: found ': ' after text that is not a key, expected a line for each key, and quotes",
        ),
        ("a:\n  b: 1\n c: 1", "f:3: found keys at another indentation, expected a line with the indentation of those"),
        ('a: "x" y', "f:1: found text behind a value, expected a line with the indentation of those above"),
        ("a:\n\tb: 1", "f:2: found a tab, expected spaces"),
        ("a: @b", "f:1: found '@', expected quotes around text that begins with this character"),
        ('a: "\\q"', "f:1: found the escape \\q, expected an escape that YAML knows, or single quotes"),
        ("a: - b", "f:1: found a '- ' behind a key, expected a line of its own"),
        ("a: 1\nb\nc: 1", "f:2: found text that is no key, expected a key with ': ' behind it"),
        ("a: 1\n---\nb: 1\n", "f:2: found a second document, expected one for each file"),
        ("", "f: found nothing, expected a mapping"),
        (b"a: 1\nb: \xff", "f:2: found the byte 0xff, expected UTF-8"),
        ("a: 1\nb: \x07", "f:2: found the character U+0007, expected text without control characters"),
        ("[" * 100_000, "f:1: found more than 20 levels, expected at most 20"),
        ("a: " + "x" * 1_000_001, "f: found more than 1000000 bytes, expected at most 1000000"),
    ],
)
def test_what_is_no_plain_setting_is_a_problem(tmp_path: Path, text: str | bytes, problem: str) -> None:
    _, problems = read(tmp_path, text)
    assert len(problems) == 1
    assert problems[0].startswith(problem)
    assert problems[0].isprintable()


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    problems = Problems()
    assert read_yaml(tmp_path / "missing.yaml", problems) is None
    assert [problem.found for problem in problems.found] == ["no file to read (No such file or directory)"]
    assert read_yaml(tmp_path, problems) is None
    assert problems.found[1].found == "no file to read (Is a directory)"
