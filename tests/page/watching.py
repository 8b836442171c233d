"""Reads the page in a tab: the places of its parts, and their contents."""

from collections.abc import Callable

from tests.page.browser import Tab
from tests.server.running import Running

POLICY = """
keyrail: 1
alerts: {hot_key: {share: 40%, rate: 1/s}}
rules:
  walks: {refuse: [KEYS], because: one KEYS stops every client, mode: enforce}
"""
HOT = "product:8841:stock"
EVIL_KEY = "<img src=x onerror=pwned=1>"
EVIL_NAME = "<img/src=x/onerror=pwned=2>"
TOKEN = "a-long-enough-token"
LONG_KEY = "a-key-that-goes-on-and-on:" + "x" * 300

LIVE = "document.querySelector('#state').dataset.kind === 'live'"
TOP = "#keys-table tbody tr:first-child button.key"


def shown(tab: Tab, running: Running, traffic: Callable[[], None], path: str = "/") -> None:
    """Open the page and wait until it has the traffic on it."""
    tab.go(running.admin + path)
    tab.until(f"{LIVE} && document.querySelectorAll('#keys-table tbody button').length >= 3", traffic)


def give_token(tab: Tab, token: str) -> None:
    tab.until("document.querySelector('#token')?.open")
    tab.js("document.querySelector('#token-input').focus()")
    tab.do("Input.insertText", text=token)
    tab.press("Enter")


def faint(tab: Tab) -> list[str]:
    """Texts with less contrast to their ground than WCAG asks for at level AA: 4.5 to 1."""
    return list(tab.js(_FAINT))


_FAINT = """(() => {
    const light = (colour) => colour.slice(0, 3)
        .map((part) => part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
    const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const ground = (each) => {
        const colour = numbers(getComputedStyle(each).backgroundColor);
        return colour[3] === 0 ? ground(each.parentElement) : colour;
    };
    const opaque = (each) => !each || getComputedStyle(each).opacity === '1' && opaque(each.parentElement);
    const contrast = (each) => {
        const [dark, bright] = [numbers(getComputedStyle(each).color), ground(each)].map(light).sort((a, b) => a - b);
        return (bright + 0.05) / (dark + 0.05);
    };
    return [...document.querySelectorAll('body *')]
        .filter((each) => [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
        .filter((each) => each.checkVisibility() && !each.disabled && (contrast(each) < 4.5 || !opaque(each)))
        .map((each) => `${each.className} ${each.textContent.slice(0, 30)} ${contrast(each).toFixed(2)}`);
})()"""
