"""Stands for `keyrail` in a shell: the real one is forked by `fork_server`, gets this process's streams, folder and
environment, hears its signals, and this process ends as that one does.

`python -I -S fork_client.py FD ARGUMENTS…` imports little, since it is started for each command that a test types.
"""

import json
import os
import signal
import socket
import struct
import sys

PID = struct.Struct("i")
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)


def main() -> int:
    told, ended = os.pipe()
    request = {
        "arguments": sys.argv[2:],
        "env": dict(os.environ),
        "cwd": os.getcwd(),  # noqa: PTH109  pathlib takes longer to import than all else here
        "group": False,
        "open_files": None,
    }
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        socket.send_fds(requests, [json.dumps(request).encode()], [0, 1, 2, ended])
    os.close(ended)
    pid = PID.unpack(os.read(told, PID.size))[0]
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: os.kill(pid, number))
    status = os.waitstatus_to_exitcode(PID.unpack(os.read(told, PID.size))[0])
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


if __name__ == "__main__":
    sys.exit(main())
