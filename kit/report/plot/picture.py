"""A picture: SVG elements whose style comes from classes, and the words for those who do not see it; as SVG or PNG."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from functools import cache
from html import escape

from kit.core.errors import MachineError, not_installed
from kit.core.sanitize import printable

#: Width of one character of the labels, in the units of a picture; labels are set in 13 of them.
CHARACTER = 7.8
_WIDEST_LABEL = 330.0
_HEAD = 30.0  # for the title of a file
_LONGEST = 100  # name of a file, without its ending
FONTS = "'DejaVu Sans', 'Liberation Sans', 'Noto Sans', Roboto, Arial, Helvetica, 'Segoe UI', sans-serif"
#: Dots of a PNG for each unit of a picture: legible on paper and on dense screens.
ZOOM = 2.0

#: Light style of the classes; a page has its own, including dark ones.
_STYLE = f"""
text {{ font: 13px {FONTS}; fill: #1c2330; }}
.head {{ font-weight: bold; }}
.quiet {{ fill: #5b6472; font-size: 12px; }}
.axis {{ stroke: #b8c0cc; stroke-width: 1; fill: none; }}
.grid {{ stroke: #e6e9ee; stroke-width: 1; fill: none; }}
.zero {{ stroke: #1c2330; stroke-width: 1.5; fill: none; }}
.wide {{ stroke: #c3cad5; stroke-width: 6; fill: none; }}
.more {{ stroke: #b3261e; fill: #b3261e; }}
.less {{ stroke: #00695c; fill: #00695c; }}
.none {{ stroke: #5b6472; fill: #ffffff; }}
.line {{ stroke-width: 2.5; }}
.level {{ stroke: #1f5fa8; stroke-width: 2; fill: none; }}
.dot {{ fill: #1f5fa8; fill-opacity: 0.65; stroke: none; }}
.flagged {{ fill: none; stroke: #b3261e; stroke-width: 1.5; }}
.mean {{ stroke: #1c2330; stroke-width: 2; }}
.change {{ stroke: #b3261e; stroke-width: 1.5; stroke-dasharray: 5 4; fill: none; }}
.limit {{ stroke: #b26a00; stroke-width: 1.5; stroke-dasharray: 2 3; fill: none; }}
.step0 {{ fill: #0b6aa2; }} .step1 {{ fill: #d98200; }} .step2 {{ fill: #b3446c; }} .step3 {{ fill: #3d8f5f; }}
.step4 {{ fill: #7a6fb0; }} .step5 {{ fill: #6d6d6d; }}
.inside {{ fill: #ffffff; font-size: 12px; stroke: none; }}
.whole {{ stroke: #1c2330; stroke-width: 2; fill: #1c2330; }}
.flame text {{ font-size: 12px; stroke: none; fill: #1c2330; }} .frame rect {{ fill: #e6e6e6; stroke: none; }}
.by-kind .part rect {{ fill: #d5dae2; }} .by-kind .program rect {{ fill: #f6e2a8; }}
.by-kind .kernel rect {{ fill: #f5bd7f; }}
.by-difference .more1 rect, .swatch.more1 {{ fill: #fad9d5; stroke: none; }}
.by-difference .more2 rect, .swatch.more2 {{ fill: #f3a79f; stroke: none; }}
.by-difference .more3 rect, .swatch.more3 {{ fill: #e8776b; stroke: none; }}
.by-difference .less1 rect, .swatch.less1 {{ fill: #d5e5f8; stroke: none; }}
.by-difference .less2 rect, .swatch.less2 {{ fill: #a3c6ef; stroke: none; }}
.by-difference .less3 rect, .swatch.less3 {{ fill: #6fa6e4; stroke: none; }}
.swatch.same {{ fill: #e6e6e6; stroke: none; }}
"""


@dataclass(frozen=True)
class Picture:
    """A picture."""

    name: str
    title: str
    text: str  # describes the picture in words, for those who do not see it
    width: float  # CSS pixels
    height: float  # CSS pixels
    body: str
    kind: str = ""  # classes of an interactive picture; others are images

    @property
    def identifier(self) -> str:
        """Return the name in a form safe for a file and an element: it leaves no directory, ends no attribute, and is
        short. A changed name ends in its digest, so that names remain distinct."""
        plain = re.sub(r"[^A-Za-z0-9_@+=.-]", "-", self.name)[:_LONGEST].lstrip(".-")
        if plain == self.name:
            return plain
        return f"{plain}-{hashlib.sha256(self.name.encode(errors='backslashreplace')).hexdigest()[:8]}".lstrip("-")

    def inline(self) -> str:
        """Return an element of a page, which sets the style."""
        name = self.identifier
        role = f'role="group" class="{self.kind}"' if self.kind else 'role="img"'
        return self._element(f'<svg {role} aria-labelledby="{name}-t {name}-d"', "")

    def file(self) -> str:
        """Return a separate file, in light colours."""
        start = f'<svg xmlns="http://www.w3.org/2000/svg" class="{self.kind}"'
        width, height = max(self.width, len(self.title) * CHARACTER * 1.1 + 16), self.height + _HEAD
        paper = f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>'
        head = text(8, 20, self.title, kind="head")
        body = f'<g transform="translate(0 {_HEAD:g})">{self.body}</g>'
        whole = replace(self, width=width, height=height, body=body)
        return f"{whole._element(start, f'<style>{_STYLE}</style>{paper}{head}')}\n"

    def _element(self, start: str, more: str) -> str:
        size = f'viewBox="0 0 {self.width:g} {self.height:g}" width="{self.width:g}" height="{self.height:g}"'
        name = self.identifier
        words = f'<title id="{name}-t">{_words(self.title)}</title><desc id="{name}-d">{_words(self.text)}</desc>'
        return f"{start} {size}>{words}{more}{self.body}</svg>"


def _words(text: str) -> str:
    """Return the escaped text of an element."""
    return escape(printable(text))


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> str:
    looks = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{looks}>{_words(words)}</text>'


def rect(x: float, y: float, width: float, height: float, kind: str, hint: str = "") -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" class="{kind}">{_hint(hint)}</rect>'
    )


def frame(where: tuple[float, float, float, float], name: str, label: str, kind: str, hint: str) -> str:
    """Return a box with as much of its name as ``label`` shows: x, y, width, height. It can be selected; see
    flame.js."""
    x, y, width, height = where
    return (
        f'<g class="{kind}" data-name="{_words(name)}"><title>{_words(hint)}</title>'
        f'<rect x="{x:.2f}" y="{y:.1f}" width="{max(width - 0.5, 0.4):.2f}" height="{height:g}"/>'
        f'<text x="{x + 3:.2f}" y="{y + height - 4:.1f}">{_words(label)}</text></g>'
    )


def circle(x: float, y: float, radius: float, kind: str, hint: str = "") -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" class="{kind}">{_hint(hint)}</circle>'


def path(data: str, kind: str) -> str:
    return f'<path d="{data}" class="{kind}"/>'


def _hint(words: str) -> str:
    return f"<title>{_words(words)}</title>" if words else ""


def shortened(words: str, width: float) -> str:
    """Return as much of a label as fits."""
    room = int(width / CHARACTER)
    return words if len(words) <= room else f"{words[: room - 1]}…"


def label_width(labels: list[str]) -> float:
    return min(_WIDEST_LABEL, max((len(label) for label in labels), default=0) * CHARACTER + 14)


def to_png(svg: str) -> bytes:
    """Return a PNG. Raises MachineError if the renderer or all fonts are missing."""
    _need_font()
    return _render(svg)


def _render(svg: str, fonts: bool = True) -> bytes:
    """Return a PNG. ``fonts``: the machine's; loading them takes most of the time."""
    try:
        import resvg_py
    except ImportError:
        raise not_installed("PNG needs", "resvg-py", "plots") from None
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=ZOOM, skip_system_fonts=not fonts))


@cache
def _need_font() -> None:
    """Raise MachineError without fonts: the picture would otherwise silently lack all letters."""
    empty = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20">{}</svg>'
    if _render(empty.format(f'<text x="2" y="15" font-family="{FONTS}">kit</text>')) == _render(
        empty.format(""), fonts=False
    ):
        raise MachineError("this machine has no font to draw letters with", "install DejaVu Sans (fonts-dejavu-core)")
