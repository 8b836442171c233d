"""The picture of the page for README: `python -m tests.page.screenshot` writes docs/images/page.png.

A shop's traffic for a minute, and at the end one very hot product.
"""

import base64
import random
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.page.browser import Browser, program
from tests.page.watching import LIVE
from tests.resp import pack
from tests.server.running import Running, serve

PICTURE = Path(__file__).parents[2] / "docs/images/page.png"
SIZE = (1280, 620)
HOT = "product:8841:stock"
POLICY = """
keyrail: 1
apps:
  checkout: {match: {client_name: checkout-*}}
  catalog: {match: {client_name: catalog-*}}
  reports: {match: {client_name: reports-*}}
alerts: {hot_key: {share: 20%, rate: 300/s}}
rules:
  no-keyspace-walks: {refuse: [KEYS], because: one KEYS stops every client, mode: enforce}
  key-names: {names: {separator: ":", segments: 2..4}, mode: warn}
  default-lifetime: {lifetime: {default: 5m, jitter: 10%}, mode: enforce}
"""
_CALM_SECONDS, _SALE_SECONDS = 52.0, 14.0
_MOMENT = 0.02


@contextmanager
def shop() -> Iterator[tuple[Running, Callable[[int], None]]]:
    """A Keyrail with a private Valkey, and a moment of the shop's traffic: so many uses of the hot key are in it."""
    with tempfile.TemporaryDirectory(prefix="keyrail-shop-") as folder, ExitStack() as stack:
        policy = Path(folder, "platform.yaml")
        policy.write_text(POLICY)
        arguments = ("--embedded", "--policy", "platform.yaml", "--watch", "off")
        running = stack.enter_context(
            serve(*arguments, folder=Path(folder), variables={"KEYRAIL_REDACT": "none"})
        ).ready()
        names = ("checkout-1", "checkout-2", "catalog-1", "reports-1")
        wires = {name: stack.enter_context(running.wire()) for name in names}
        for name, wire in wires.items():
            wire.ask("CLIENT", "SETNAME", name)
        for number in range(60):
            for what in ("stock", "price"):
                wires["catalog-1"].ask("SET", f"product:{8800 + number}:{what}", "x" * 400)
        turn, chance = 0, random.Random(8841)

        def moment(hot: int) -> None:
            nonlocal turn
            turn += 1
            product, user = 8800 + int(60 * chance.random() ** 3), turn * 7 % 40
            ask("catalog-1", pack("GET", f"product:{product}:stock"), pack("GET", f"product:{product}:price"))
            ask("checkout-1", pack("GET", f"user:{user}:cart"), *[pack("GET", HOT)] * hot)
            ask("checkout-2", pack("SET", f"user:{user}:cart", "x" * 300), *[pack("GET", HOT)] * (hot // 2))
            if turn % 50 == 0:
                ask("reports-1", pack("KEYS", "order:*"), pack("SET", f"tmp_{turn // 50}", "x"))

        def ask(name: str, *commands: bytes) -> None:
            wires[name].send(b"".join(commands))
            wires[name].frames(len(commands))

        yield running, moment


def picture(browser: Browser, running: Running, moment: Callable[[], None]) -> bytes:
    """The page as a PNG, once it shows the incident of the hot key."""
    with browser.tab(SIZE, prefers_color_scheme="light") as tab:
        tab.do("Emulation.setScrollbarsHidden", hidden=True)
        tab.go(running.admin)
        tab.until(f"{LIVE} && document.querySelector('#incidents-list button')?.offsetWidth", moment)
        return base64.b64decode(tab.do("Page.captureScreenshot", format="png")["data"])


def size_of(png: bytes) -> tuple[int, int]:
    """Width and height of a PNG (its IHDR, https://www.w3.org/TR/png-3/#11IHDR)."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def _take() -> None:
    chromium = program()
    assert chromium is not None, "Chromium is not installed here"
    browser = Browser(chromium)
    try:
        with shop() as (running, moment):
            began = time.monotonic()
            while (past := time.monotonic() - began) < _CALM_SECONDS + _SALE_SECONDS:
                moment(1 if past < _CALM_SECONDS else 10)
                time.sleep(_MOMENT)
            PICTURE.parent.mkdir(exist_ok=True)
            PICTURE.write_bytes(picture(browser, running, lambda: moment(10)))
    finally:
        browser.close()


if __name__ == "__main__":
    _take()
