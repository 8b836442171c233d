"""The page's JavaScript is linted and type-checked, and its types are those of page.html and of what Keyrail sends.

Node brings the tools: TypeScript and Biome, installed where NODE_PATH points. Users need neither.
"""

import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from itertools import islice
from pathlib import Path

import pytest

from proxy.server.stored.kept import KeptScans
from tests.cli.made_scan import made_scan
from tests.conftest import Fleet
from tests.resp import PATIENCE_SECONDS, pack
from tests.server.running import events, serve, stream, ticks

pytestmark = pytest.mark.source
HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "proxy/server/admin/page"
POLICY = """
keyrail: 1
apps: {checkout: {match: {client_name: checkout-*}}}
rules:
  walks: {refuse: [KEYS], because: one KEYS stops every client, mode: enforce}
  flushes: {refuse: [FLUSHALL]}
exceptions: [{rule: walks, keys: "lock:*", because: OPS-1, until: 2099-01-15, then: warn}]
"""
TAGS = {
    "HTMLButtonElement": "button",
    "HTMLDialogElement": "dialog",
    "HTMLFieldSetElement": "fieldset",
    "HTMLFormElement": "form",
    "HTMLInputElement": "input",
    "HTMLSelectElement": "select",
    "HTMLTableElement": "table",
}


def run(program: str, *arguments: str | Path) -> str:
    """The complaints of a program of Node's packages, such as `typescript/bin/tsc`."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed here")
    find = [node, "-p", "require.resolve(process.argv[1])", program]
    found = subprocess.run(find, capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(f"{program.rpartition('/bin/')[0]} is not installed where NODE_PATH points")
    command = [node, found.stdout.strip(), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=4 * PATIENCE_SECONDS)
    complaints = done.stdout + done.stderr
    return complaints or "it says nothing" if done.returncode else ""


def checked(folder: Path) -> str:
    """The type checker's complaints about a folder with the page's files."""
    settings = {"extends": str(HERE / "tsconfig.json"), "include": [str(folder / "*")]}
    file = folder / "tsconfig.json"
    file.write_text(json.dumps(settings))
    return run("typescript/bin/tsc", "--project", file)


@pytest.mark.long
def test_the_types_are_right() -> None:
    assert run("typescript/bin/tsc", "--project", HERE) == ""


def test_the_linter_has_nothing_to_say() -> None:
    assert run("@biomejs/biome/bin/biome", "lint", "--error-on-warnings", f"--config-path={HERE}", PAGE) == ""


@pytest.mark.long
def test_a_wrong_type_is_found(tmp_path: Path) -> None:
    shutil.copytree(PAGE, tmp_path, dirs_exist_ok=True)
    panels = tmp_path / "panels.js"
    text = panels.read_text("utf-8")
    panels.write_text(text.replace("row.schema", "row.scheme").replace('"hit_ratio"', '"hit_rate"'), "utf-8")
    complaints = checked(tmp_path)
    assert "'scheme' does not exist on type 'Pattern'" in complaints
    assert "'hit_rate'" in complaints


class Elements(HTMLParser):
    """The tags of page.html by their ids."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: dict[str, str] = {}
        self.feed((PAGE / "page.html").read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.update({value: tag for name, value in attrs if name == "id" and value})


def test_each_element_that_is_asked_for_is_on_the_page() -> None:
    tags = Elements().tags
    asked = {each for file in PAGE.glob("*.js") for each in re.findall(r'byId\("([\w-]+)"\)', file.read_text("utf-8"))}
    assert len(asked) > 40
    assert asked - tags.keys() == set()
    declared = dict(re.findall(r'^  "([\w-]+)": (HTML\w+);$', (PAGE / "types.d.ts").read_text("utf-8"), re.MULTILINE))
    assert {name: TAGS[kind] for name, kind in declared.items()} == {name: tags.get(name) for name in declared}


@pytest.mark.long
def test_the_types_are_those_of_what_is_sent(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    KeptScans(tmp_path / "state").write(made_scan("a"))
    upstream = fleet.engine("valkey-9.1", "server").url
    with (
        serve(
            *("--upstream", upstream, "--policy", str(tmp_path / "policy.yaml"), "--state-dir", str(tmp_path / "state"))
        ) as running,
        running.ready().wire() as wire,
    ):
        wire.ask("CLIENT", "SETNAME", "checkout-1")
        for _ in ticks(2 * PATIENCE_SECONDS):
            wire.send(pack("SET", "user:{1}:name", "ada") + pack("GET", "user:{1}:name") + pack("KEYS", "*"))
            wire.frames(3)
            told = running.json("/hotkeys")
            if told["keys"] and told["keys"][0]["clients"] and running.json("/violations")["violations"]:
                break
        remedy = {"key": "user:{1}:name", "app": "all", "rate": "9000/s", "because": "a test"}
        effect = json.loads(running.http("/remedies", remedy)[1])["effect"]
        report, stored, schema = (running.json(path) for path in ("/report", "/stored", "/schema"))
        with stream(running) as answer:
            sent = dict(islice(events(answer), 3))
    overview = sent["overview"]
    for place in ("hotkeys.keys", "patterns.patterns", "slots.slots", "slots.tags", "clients.clients", "slow.commands"):
        part, _, rows = place.partition(".")
        assert overview[part][rows], f"there is no {place} to compare"
    assert overview["remedies"]
    (finding,) = (each for team in report["teams"] for app in team["apps"] for each in app["findings"])
    assert finding["clients"], finding["exemplars"]
    assert finding["exceptions"], report["silent"]
    samples = {"Overview": overview, "History": sent["history"], "Violation[]": sent["violations"], "Effect": effect}
    assert stored["scan"]["findings"], "there is no scan to compare"
    samples |= {"Report": report, "Stored": stored, "SchemaAnswer": schema}
    shutil.copy(PAGE / "types.d.ts", tmp_path)
    lines = ['import type { Effect, History, Overview, Report, SchemaAnswer, Stored, Violation } from "./types.d.ts";']
    lines += [f"export const sample{i}: {kind} = {json.dumps(data)};" for i, (kind, data) in enumerate(samples.items())]
    (tmp_path / "samples.ts").write_text("\n".join(lines))
    assert checked(tmp_path) == ""


def test_where_the_tools_are_missing_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "NODE_PATH", "/nowhere")
    with pytest.raises(pytest.skip.Exception, match="not installed"):
        run("typescript/bin/tsc", "--version")
