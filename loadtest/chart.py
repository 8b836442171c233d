"""Draws CPU time per command as bars: an SVG, without any library.

It has its own background, since a page can be light although the system asks for dark colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _MARGIN = 930, 15
_PANEL, _GAP = 435, 30
_NAME, _BAR = 150, 125
"""The width of the names of the bars and of the longest bar, in pixels; the rest of a panel is for its figures."""
_ROW, _HEAD, _TOP = 22, 30, 34
_STYLE = """
  .ground { fill: #ffffff; stroke: #d1d9e0 }
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600 } .figure { fill: #59636e }
  .proxy { fill: #0969da } .redis { fill: #afb8c1 }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; stroke: #3d444d }
    text { fill: #f0f6fc } .figure { fill: #9198a1 } .proxy { fill: #4493f8 } .redis { fill: #57606a }
  }
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """One target: CPU time per command in µs, of the proxy and of Redis, and commands per second."""

    name: str
    proxy: float
    redis: float
    rate: float

    @property
    def whole(self) -> float:
        """CPU time of both, in µs."""
        return self.proxy + self.redis


@dataclass(frozen=True, slots=True)
class Panel:
    """The targets under one workload."""

    title: str
    bars: Sequence[Bar]


def svg(panels: Sequence[Panel]) -> str:
    """All panels, two in a row; the panels of a row have one scale. Ends with a line feed."""
    height = max(len(panel.bars) for panel in panels) * _ROW + _HEAD
    parts = [_legend()]
    for number, panel in enumerate(panels):
        row = panels[number // 2 * 2 : number // 2 * 2 + 2]
        longest = max(bar.whole for each in row for bar in each.bars)
        x, y = number % 2 * (_PANEL + _GAP), _TOP + number // 2 * height
        parts += _drawn(panel, x, y, _BAR / longest)
    whole = _TOP + (len(panels) + 1) // 2 * height + 2 * _MARGIN - 10
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{whole}" viewBox="0 0 {_WIDTH} {whole}" '
        f'role="img" aria-label="CPU time per command">'
    )
    ground = f'<rect class="ground" x="0.5" y="0.5" width="{_WIDTH - 1}" height="{whole - 1}" rx="6"/>'
    body = [f'<g transform="translate({_MARGIN} {_MARGIN})">', *parts, "</g>"]
    return "\n".join([head, f"<style>{_STYLE}</style>", ground, *body, "</svg>", ""])


def _legend() -> str:
    return (
        '<rect class="proxy" x="0" y="4" width="12" height="12"/><text x="18" y="14">CPU of the proxy</text>'
        '<rect class="redis" x="140" y="4" width="12" height="12"/><text x="158" y="14">CPU of Redis</text>'
        '<text class="figure" x="260" y="14">µs per command, and commands per second; a shorter bar is better</text>'
    )


def _drawn(panel: Panel, x: int, y: int, scale: float) -> list[str]:
    parts = [f'<text class="title" x="{x}" y="{y + 16}">{escape(panel.title)}</text>']
    for number, bar in enumerate(panel.bars):
        cpu = f"{bar.proxy:.2f} + {bar.redis:.2f}" if bar.proxy else f"{bar.redis:.2f}"
        rate = f"{bar.rate / 1000:,.0f}k/s"
        top = y + _HEAD - 6 + number * _ROW
        middle, start = x + _NAME + bar.proxy * scale, x + _NAME
        end = x + _NAME + bar.whole * scale
        parts += [
            f'<text x="{x}" y="{top + 13}">{escape(bar.name)}</text>',
            f'<rect class="proxy" x="{start}" y="{top + 2}" width="{middle - start:.1f}" height="14"/>',
            f'<rect class="redis" x="{middle:.1f}" y="{top + 2}" width="{end - middle:.1f}" height="14"/>',
            f'<text class="figure" x="{end + 6:.1f}" y="{top + 13}">{cpu} µs, {rate}</text>',
        ]
    return parts
