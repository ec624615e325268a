"""SVG as PNG."""

from __future__ import annotations

from functools import cache

from kit.core.errors import MachineError, not_installed
from kit.report.plot.picture import FONTS

#: Dots of a PNG for each unit of a picture: legible on paper and on dense screens.
ZOOM = 2.0


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
        raise MachineError("this machine has no font to draw letters with", "run apt-get install fonts-dejavu-core")
