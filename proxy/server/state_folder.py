"""The folder of what survives a restart (``--state-dir``), and its one owner.

    state.json        the kill switch and remedies
    evidence.sqlite   what rules and clients did
    scans/            results of `keyrail scan`, which writes them without the lock (``stored.kept``)
    lock              locked by its owner, with the owner's process id

At a hot restart the successor inherits the lock with its descriptor, so nobody else can come between. The lock ends
with the last process that has it open.
"""

import fcntl
import os
import stat
from pathlib import Path

from proxy.server.state_file import StateError

EVIDENCE = "evidence.sqlite"
_MOST_DIGITS = 20


class StateFolder:
    """The folder, as long as this process owns it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.state = path / "state.json"
        self.evidence = path / EVIDENCE
        self.descriptor = descriptor
        """The lock, for a successor to inherit."""

    @classmethod
    def open(cls, path: Path, inherited: int | None) -> "StateFolder":
        """Make the folder if it is missing, and own it: by the descriptor of the predecessor's lock, if that is of this
        folder. Raises StateError."""
        lock = path / "lock"
        try:
            path.mkdir(mode=0o700, exist_ok=True)
            if inherited is not None:
                if lock.exists() and os.path.samestat(lock.stat(), os.fstat(inherited)):
                    return cls(path, inherited)
                os.close(inherited)
            folder = cls(path, os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600))
        except OSError as error:
            raise StateError(f"cannot use the state folder {path}: {error.strerror}") from None
        try:
            folder._lock(path)
        except BaseException:
            folder.close()
            raise
        return folder

    def sign(self) -> None:
        """Tell others which process owns the folder; a successor does so when it serves."""
        try:
            os.truncate(self.descriptor, 0)
            os.pwrite(self.descriptor, b"%d" % os.getpid(), 0)
        except OSError:
            pass  # a full disk: the lock holds without it

    def close(self) -> None:
        """Leave the folder to others, unless a successor has inherited it."""
        os.close(self.descriptor)

    def _lock(self, path: Path) -> None:
        if not stat.S_ISREG(os.fstat(self.descriptor).st_mode):
            raise StateError(f"cannot use the state folder {path}: its file `lock` is no regular file")
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(self.descriptor, _MOST_DIGITS, 0).decode("ascii", "replace")
            raise StateError(
                f"another Keyrail owns the state folder {path}: process {owner or 'unknown'}; each needs its own"
            ) from None
        except OSError as error:
            raise StateError(f"cannot lock the state folder {path}: {error.strerror}") from None
        self.sign()
