"""Run README's first command as it is, in a new folder, and check that Keyrail serves as README says.

    python -m tests.readme.served FOLDER compiled|plain

The folder has a copy of the tree. Only the ports differ from a reader's run, and they come from the environment.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.engines import free_port
from tests.readme.blocks import blocks_of
from tests.resp import PATIENCE_SECONDS

START_SECONDS = 600.0  # two compilations on a slow machine
STOP_SECONDS = 60.0
CONVERSATION = (
    ("KEYS *", "-DENIED keyrail/no-keyspace-walks: "),
    ("SET john_email x", "-DENIED keyrail/key-names: "),
    ("SET user:1:name ada", "+OK"),
    ("TTL user:1:name", ":"),
    ("DEL user:1:name", ":1"),
)


def wait_for(text: str, log: Path, process: subprocess.Popen[bytes]) -> None:
    """Return when the log holds the text. Raises SystemExit with the log if that does not happen."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        if text in log.read_text():
            return
        time.sleep(0.2)
    raise SystemExit(f"{log.read_text()}\nci: expected {text!r} of README's first command")


def converse(port: int) -> None:
    """Say the tour's commands, and compare. Raises SystemExit with what differs."""
    address = "127.0.0.1", port
    with socket.create_connection(address, timeout=PATIENCE_SECONDS) as client, client.makefile("rwb") as stream:
        for command, expected in CONVERSATION:
            stream.write(command.encode() + b"\r\n")
            stream.flush()
            answer = stream.readline().decode().rstrip()
            print(f"{command}\n    {answer}")
            if not answer.startswith(expected):
                raise SystemExit(f"ci: {command} was answered {answer!r}, expected {expected!r}")


def main(folder: Path, form: str) -> None:
    """Run the command, talk to what it starts, and stop it as Ctrl-C does."""
    port, log = free_port(), folder / "served.log"
    variables = {"KEYRAIL_LISTEN": f"127.0.0.1:{port}", "KEYRAIL_ADMIN": f"127.0.0.1:{free_port()}"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-c", blocks_of("sh")[0].text],
            cwd=folder,
            env=os.environ | variables,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        wait_for(f"ready on redis://127.0.0.1:{port}", log, process)
        wait_for("commands worth trying", log, process)
        print(log.read_text())
        if f"worker, {form};" not in log.read_text():
            raise SystemExit(f"ci: expected it to run {form}")
        converse(port)
        os.killpg(process.pid, signal.SIGINT)
        if process.wait(STOP_SECONDS) != 0:
            raise SystemExit(f"ci: it ended with status {process.returncode}, expected 0\n{log.read_text()}")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
