"""The command line: an error is one clear line and an exit status, 2 for a mistake and 1 for a failure."""

import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

from proxy.build_form import BUILD_FORM
from proxy.cli import main
from proxy.server.config import load_settings
from proxy.server.option_readers import PACKAGED_POLICIES
from proxy.server.options import OPTIONS
from tests.keyrail_process import command_line, environment
from tests.resp import PATIENCE_SECONDS
from tests.server.running import refused, serve

NOWHERE = "redis://127.0.0.1:1"


def keyrail(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*command_line()[:-1], *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment(), timeout=3 * PATIENCE_SECONDS, check=False
    )


def test_version_says_the_form() -> None:
    answer = keyrail("--version")
    assert answer.returncode == 0
    assert re.fullmatch(rf"keyrail \d+\.\d+\.\d+ \({BUILD_FORM}\)\n", answer.stdout)


@pytest.mark.parametrize(
    ("arguments", "verb"),
    [
        ([], "keyrail"),
        (["dance"], "keyrail"),
        (["--poling", "serve"], "keyrail"),
        (["serve", "--poling", "on"], "keyrail serve"),
        (["serve", "--work", "2"], "keyrail serve"),
        (["policy", "schema", "x"], "keyrail policy schema"),
        (["kill-switch"], "keyrail kill-switch"),
    ],
)
def test_what_argparse_refuses_is_one_line(arguments: list[str], verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert re.fullmatch(rf"keyrail: .* \(see {verb} --help\)\n", capsys.readouterr().err)


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    for option in ("--listen", "--upstream", "--embedded", "--policy", "--admin", "--workers", "--pooling", "--config"):
        assert option in shown


def refused_here(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """The same as `refused`, without a process of its own."""
    status = main(["serve", "--upstream", NOWHERE, "--listen", "127.0.0.1:0", "--admin", "off", *arguments])
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("keyrail: ") for line in lines)
    return status, lines


def test_mistakes_have_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy, certificate = tmp_path / "bad.yaml", tmp_path / "no.pem"
    policy.write_text("keyrail: 1\nrules:\n  a: {refuse: KEYS}\n  b: {refuse: [KEYS], mode: maybe}\n")
    tls = f"rediss://127.0.0.1:0?certificate={certificate}&key={certificate}"
    for arguments, expected in (
        (["--upstream", "http://x"], ["--upstream: bad URL 'http://x': expected redis://"]),
        (["--workers", "0", "--drain", "x"], ["--workers: expected", "--drain: expected"]),
        (["--policy", str(policy)], [f"{policy}:3: ", f"{policy}:4: "]),
        (["--policy", str(tmp_path / "none.yaml")], ["none.yaml: found no file to read (No such file or directory), "]),
        (["--listen", tls], [f"cannot read certificate {certificate}: No such file or directory"]),
        (["--upstream", f"redis://h?password_file={certificate}"], ["cannot read the password of redis://h:6379"]),
        (["--config", str(tmp_path / "none.yaml")], ["none.yaml"]),
    ):
        status, lines = refused_here(arguments, capsys)
        assert status == 2
        assert len(lines) == len(expected)
        for line, part in zip(lines, expected, strict=True):
            assert part in line


def test_an_interrupted_verb_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("proxy.cli.check.load_policy", interrupt)
    assert main(["check", "default"]) == 130
    assert capsys.readouterr() == ("", "")


def test_an_interrupt_while_the_program_is_imported_is_no_traceback() -> None:
    # The finder sees each import, and stands in for somebody who is quick.
    program = """
import os, signal, sys

class Impatient:
    def find_spec(self, name, path=None, target=None):
        if name == "proxy.cli.check":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Impatient())
from proxy.cli import main
sys.exit(main(["check", "default"]))
"""
    command = [command_line()[0], "-c", program]
    answer = subprocess.run(
        command, capture_output=True, text=True, env=environment(), timeout=3 * PATIENCE_SECONDS, check=False
    )
    assert (answer.returncode, answer.stdout, answer.stderr) == (130, "", "")


def test_packaged_policies_have_names_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "default"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("packaged/default.yaml: valid; ")
    assert main(["schema", "docs", "tour"]) == 0
    assert "cart:{user:int}" in capsys.readouterr().out
    assert main(["explain", "--policy", "tour", "--", "KEYS", "*"]) == 0
    assert re.search(r"^no-keyspace-walks +packaged/tour\.yaml:\d+ +refuses it", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain", "--policy", "none", "--", "PING"],
        ["explain", "--database", "-1", "--", "PING"],
        ["check", "none"],
        ["incidents", "--count", "0"],
    ],
)
def test_values_that_a_verb_cannot_take(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert re.fullmatch(r"keyrail: argument .*: .*\n", capsys.readouterr().err)


def test_a_reader_that_has_seen_enough_is_no_traceback() -> None:
    command = [*command_line()[:-1], "policy", "schema"]
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        ended = subprocess.run(
            command, stdout=pipe, stderr=subprocess.PIPE, env=environment(), timeout=3 * PATIENCE_SECONDS, check=False
        )
    assert (ended.returncode, ended.stderr) == (1, b"")


def test_a_mistake_is_no_traceback(tmp_path: Path) -> None:
    status, lines = refused(["--policy", str(tmp_path)])
    assert (status, len(lines)) == (2, 1)


def test_all_that_is_wrong_with_the_files_is_said_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "bad.yaml"
    policy.write_text("keyrail: 2\nrules: {}\n")
    tls = f"rediss://127.0.0.1:0?cert={tmp_path}/no.pem"
    status, lines = refused_here(["--policy", str(policy), "--listen", tls], capsys)
    assert (status, len(lines)) == (2, 2)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_taken_port_has_status_1(workers: str, capsys: pytest.CaptureFixture[str]) -> None:
    with serve("--upstream", NOWHERE, "--policy", "none", "--workers", workers) as first:
        (port,) = first.ready().ports()
        taken = ["--listen", f"127.0.0.1:{port}", "--workers"]
        status, lines = refused_here([*taken, "2"], capsys)
        assert (status, lines) == (1, [f"keyrail: cannot listen on redis://127.0.0.1:{port}: already in use"])
        assert refused_here([*taken, "1"], capsys)[0] == 1
        assert first.stop() == 0


def test_a_taken_admin_port_has_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        admin = f"127.0.0.1:{taken.getsockname()[1]}"
        status, lines = refused_here(["--admin", admin], capsys)
    assert (status, lines) == (1, [f"keyrail: cannot listen on the admin port {admin}: already in use"])


def test_unix_listeners_that_cannot_be_had(socket_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (socket_folder / "file").write_text("x")
    with socket.socket(socket.AF_UNIX) as taken:
        taken.bind(str(socket_folder / "taken"))
        taken.listen()
        for name, reason in (
            ("file", "the file exists and is no socket"),
            ("taken", "already in use"),
            ("no/folder", "no such file or directory"),
            ("x" * 200, "af_unix path too long"),
        ):
            status, lines = refused_here(["--listen", f"unix://{socket_folder}/{name}"], capsys)
            assert (status, lines) == (1, [f"keyrail: cannot listen on unix://{socket_folder}/{name}: {reason}"])


def test_an_unknown_host(capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = refused_here(["--listen", "no-such-host.invalid:1"], capsys)
    assert (status, lines) == (1, ["keyrail: cannot listen on redis://no-such-host.invalid:1: unknown host"])


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["serv"], "serve"),
        (["kill-swich", "on"], "kill-switch"),
        (["serve", "--polcy", "x"], "--policy"),
        (["serve", "--polcy=x"], "--policy"),
        (["remedy", "k", "--becaus", "x"], "--because"),
        (["explain", "--datbase", "1", "--", "PING"], "--database"),
        (["top", "--view", "clientz"], "clients"),
        (["policy", "shema"], "schema"),
    ],
)
def test_what_is_nearly_right_is_told_what_was_meant(
    arguments: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert f"; did you mean {meant}?" in capsys.readouterr().err


def test_every_option_is_known_by_a_letter_too_few(capsys: pytest.CaptureFixture[str]) -> None:
    for option in OPTIONS:
        for kept in (option.flag[:-1], option.flag[:3] + option.flag[4:]):
            with pytest.raises(SystemExit):
                main(["serve", kept, "x"])
            assert f"; did you mean {option.flag}?" in capsys.readouterr().err, kept


def test_a_variable_that_is_nearly_right_is_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYRAIL_POLCY", "strict")
    status, lines = refused_here([], capsys)
    assert (status, lines) == (2, ["keyrail: KEYRAIL_POLCY: unknown variable; did you mean KEYRAIL_POLICY?"])


@pytest.mark.parametrize("service", ["KEYRAIL", "KEYRAIL_ADMIN", "KEYRAIL_POLICY", "KEYRAIL_REDIS"])
def test_variables_that_kubernetes_makes_of_a_service_are_no_mistakes(service: str) -> None:
    parts: tuple[str, ...] = (
        "SERVICE_HOST",
        "SERVICE_PORT",
        "SERVICE_PORT_REDIS",
        "PORT",
        "PORT_6380_TCP",
        "PORT_6380_TCP_PROTO",
    )
    parts += ("PORT_6380_TCP_PORT", "PORT_6380_TCP_ADDR", "SERVICE_PORT_ADMIN", "SERVICE_PORT_METRICS")
    load_settings({}, {f"{service}_{part}": "10.0.0.1" for part in parts})


@pytest.mark.parametrize(("name", "meant"), [("nosuch", ""), ("strct", "; did you mean strict?")])
def test_a_policy_that_is_none_is_told_which_there_are(
    name: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ", ".join(sorted(PACKAGED_POLICIES))
    line = f"{name}: found no file to read (No such file or directory), expected a YAML file, "
    line += f"or a packaged policy: {names}{meant}"
    assert refused_here(["--policy", name], capsys) == (2, [f"keyrail: {line}"])
    assert main(["check", name]) == 2
    assert capsys.readouterr().out == f"{line}\n{name}: not valid\n"


@pytest.mark.parametrize("size", ["8388608", "0", "8", "8 ", "1.5MB"])
def test_a_size_has_a_unit(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = refused_here(["--client-output-limit", size], capsys)
    expected = "keyrail: --client-output-limit: expected a size with its unit, such as 65536B, 512KB, 8MB or 1GB, got "
    assert (status, lines) == (2, [f"{expected}{size!r}"])


def test_explain_knows_an_address_as_serve_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "policy.yaml").write_text(
        "keyrail: 1\napps: {shop: {match: {address: [10.1.0.0/16, 'fd00:1::/64']}}}\n"
        "rules: {walks: {refuse: [KEYS]}}\nrollout: {walks: {shop: enforce}}\n"
    )
    explain = ["explain", "--policy", str(tmp_path / "policy.yaml")]
    for address, mode in (("10.1.2.3", "enforce"), ("fd00:1::9", "enforce"), ("10.2.0.1", "audit")):
        assert main([*explain, "--address", address, "--", "KEYS", "*"]) == 0
        assert f"[{mode}" in capsys.readouterr().out, address
    with pytest.raises(SystemExit):
        main([*explain, "--address", "shop.example", "--", "KEYS", "*"])


def test_explain_knows_a_listener_as_serve_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "policy.yaml").write_text(
        "keyrail: 1\napps:\n  tcp: {match: {listener: '127.0.0.1:6380'}}\n  unix: {match: {listener: /run/k.sock}}\n"
        "rules:\n  walks: {refuse: [KEYS]}\nrollout: {walks: {tcp: enforce, unix: 'off'}}\n"
    )
    explain = ["explain", "--policy", str(tmp_path / "policy.yaml")]
    for listener, mode in (
        *(("127.0.0.1:6380", "enforce"), ("redis://127.0.0.1:6380", "enforce"), ("redis://127.0.0.1", "enforce")),
        *(("rediss://127.0.0.1:6380?certificate=c&key=k", "enforce"), ("unix:///run/k.sock", "off")),
        *(("unix:///run/k.sock?mode=770", "off"), ("redis://127.0.0.1:6381", "audit")),
    ):
        assert main([*explain, "--listener", listener, "--", "KEYS", "*"]) == 0
        assert f"[{mode}" in capsys.readouterr().out, listener
    with pytest.raises(SystemExit):
        main([*explain, "--listener", "nosuch", "--", "KEYS", "*"])
