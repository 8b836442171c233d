"""A headless Chromium, driven over the DevTools protocol: tabs to read, click and type into."""

import asyncio
import itertools
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import aiohttp

from tests.resp import PATIENCE_SECONDS, eventually
from tests.server.running import ticks

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
WIDE, PHONE = (1280, 800), (360, 740)

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)
_KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), "/": (191, "/")}


def program() -> str | None:
    """The path of Chromium, if it is installed."""
    return next((found for found in map(shutil.which, PROGRAMS) if found is not None), None)


class Browser:
    """A started Chromium."""

    def __init__(self, chromium: str) -> None:
        self.runner = asyncio.Runner()
        self._folder = tempfile.TemporaryDirectory(prefix="keyrail-browser-", ignore_cleanup_errors=True)
        self._process = subprocess.Popen(
            [chromium, *_FLAGS, f"--user-data-dir={self._folder.name}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._port = self._await_port()

    def _await_port(self) -> int:
        told = Path(self._folder.name, "DevToolsActivePort")
        for _ in ticks(2 * PATIENCE_SECONDS):
            if told.exists() and (words := told.read_text().split()):
                return int(words[0])
            assert self._process.poll() is None, "Chromium has ended at its start"
        raise AssertionError("Chromium does not say where it listens")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE_SECONDS)
        self.runner.close()
        eventually(self._is_removed)

    def _is_removed(self) -> bool:
        # Processes that it has started go on to write for a moment.
        self._folder.cleanup()
        return not Path(self._folder.name).exists()

    @contextmanager
    def tab(self, size: tuple[int, int] = WIDE, **media: str) -> Iterator["Tab"]:
        """A new tab, as large as this, and with these media features (`prefers_color_scheme="dark"`)."""
        tab = self.runner.run(Tab.open(self.runner, self._port))
        try:
            tab.resize(*size)
            features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
            tab.do("Emulation.setEmulatedMedia", features=features)
            yield tab
        finally:
            self.runner.run(tab.close())


class Tab:
    """One page. `complaints` are errors in its console, and exceptions that nobody caught."""

    def __init__(self, runner: asyncio.Runner, session: aiohttp.ClientSession, socket: Any) -> None:
        self.complaints: list[str] = []
        self._runner = runner
        self._session = session
        self._socket = socket
        self._numbers = itertools.count(1)

    @classmethod
    async def open(cls, runner: asyncio.Runner, port: int) -> Self:
        session = aiohttp.ClientSession()
        async with session.put(f"http://127.0.0.1:{port}/json/new?about:blank") as answer:
            target = await answer.json()
        tab = cls(runner, session, await session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0))
        for domain in ("Page", "Runtime", "Log"):
            await tab._do(f"{domain}.enable", {})
        return tab

    async def close(self) -> None:
        with suppress(aiohttp.ClientError, AssertionError):
            await self._do("Page.close", {})
        await self._socket.close()
        await self._session.close()

    def do(self, method: str, **params: Any) -> Any:
        """Give a command of the DevTools protocol."""
        return self._runner.run(asyncio.wait_for(self._do(method, params), PATIENCE_SECONDS))

    async def _do(self, method: str, params: dict[str, Any]) -> Any:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": params})
        async for message in self._socket:
            heard = json.loads(message.data)
            if heard.get("id") == number:
                assert "error" not in heard, heard
                return heard["result"]
            self._hear(heard.get("method", ""), heard.get("params", {}))
        raise AssertionError("Chromium has hung up")

    def _hear(self, event: str, params: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif event == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif event == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(params["args"]))

    def resize(self, width: int, height: int) -> None:
        self.do(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width <= PHONE[0],
        )

    def go(self, url: str) -> None:
        self.do("Page.navigate", url=url)

    def js(self, expression: str) -> Any:
        """The value of an expression."""
        found = self.do("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def text(self, selector: str) -> str:
        """The text of the first element that fits; empty if there is none."""
        return str(self.js(f"document.querySelector({json.dumps(selector)})?.textContent ?? ''"))

    def press(self, key: str) -> None:
        """Press a key, as a keyboard does."""
        code, text = _KEYS[key]
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.do("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **more)

    def click(self, selector: str) -> None:
        """Click where the element is, as a mouse does."""
        place = f"""(() => {{
            const element = document.querySelector({json.dumps(selector)});
            element.scrollIntoView({{block: "center"}});
            const box = element.getBoundingClientRect();
            return [box.left + Math.min(box.width / 2, 20), box.top + box.height / 2];
        }})()"""
        x, y = self.js(place)
        for kind in ("mousePressed", "mouseReleased"):
            self.do("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def until(self, expression: str, meanwhile: Callable[[], object] = lambda: None) -> Any:
        """Wait for an expression to be true, doing something meanwhile; what it speaks of may not be there yet."""
        trouble: AssertionError | None = None
        for _ in ticks(2 * PATIENCE_SECONDS):
            meanwhile()
            try:
                found = self.js(expression)
            except AssertionError as error:
                found, trouble = None, error
            if found:
                return found
        raise AssertionError(f"never: {expression}\n{self.text('body')}\n{self.complaints}") from trouble
