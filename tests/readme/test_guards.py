"""The list of classes of faults and their tests names existing files and tests."""

import re
from pathlib import Path

import proxy
from tests.quick import TELLING

TESTS = Path(__file__).resolve().parents[1]
PACKAGE = Path(proxy.__file__).parent
NAMED = re.compile(r"`((?:[a-z_]+/)+[a-z_]*(?:\.py)?)(?:::(\w+))?`")


def test_all_that_is_named_is_there() -> None:
    named = NAMED.findall((TESTS / "README.md").read_text(encoding="utf-8"))
    assert len(named) > 40
    for name, inside in named:
        found = [path for path in (TESTS / name, PACKAGE / name, TESTS.parent / name) if path.exists()]
        assert found, f"tests/README.md names {name}, which is neither below tests/ nor below proxy/ nor beside them"
        assert not inside or re.search(rf"\b{inside}\b", found[0].read_text(encoding="utf-8")), f"{name}: no {inside}"


def test_each_file_with_tests_of_the_night_is_named_with_the_reason() -> None:
    """So that nobody takes a default run for all there is."""
    section = (
        (TESTS / "README.md").read_text(encoding="utf-8").split("## What only `.ci/night` runs")[1].split("\n## ")[0]
    )
    marked = {
        str(path.relative_to(TESTS))
        for path in TESTS.glob("*/**/test_*.py")
        if re.search(
            r"^(?:(?:@|\w+ = )pytest\.mark\.(?:long|parametrize\(.*(?:rest_is_long|seeds\(\d+, |\.long))"
            r"|pytestmark = .*pytest\.mark\.long| .*\bmarks=.*pytest\.mark\.long)",
            path.read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    }
    assert marked == {name for name, _ in NAMED.findall(section) if not name.startswith("hotpath/")}


def test_the_quick_run_has_what_it_names_and_a_folder_that_is_left_out_starts_servers() -> None:
    for folder, files in TELLING.items():
        found = {path.name: path.read_text(encoding="utf-8") for path in (TESTS / folder).glob("test_*.py")}
        assert all((TESTS / folder / name).exists() for name in files)
        starting = {
            name for name, text in found.items() if re.search(r"\b(?:engines|fleet|Keyrail|Engine|subprocess)\b", text)
        }
        assert starting - set(files), f"{folder} has nothing to leave out"
