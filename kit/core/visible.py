"""Text that comes from workloads, imports and names, as it may be shown: nothing in it moves a cursor or turns the
direction of writing, and no secret is said. Pure."""

from __future__ import annotations

import re

from kit.core.redact import redact

#: Control characters (C0, DEL, C1) but tab and the ends of lines, marks and overrides of direction, separators that end
#: a line, and what no XML holds: surrogates and noncharacters.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff]"
    "|\r(?!\n)"
)


def visible(text: str) -> str:
    """With an escape in the place of each character that acts instead of being seen: ``\\x1b``, ``\\u202e``."""
    return _HIDDEN.sub(_escape, text) if _HIDDEN.search(text) else text


def printable(text: str) -> str:
    """``visible``, without passwords and tokens: of what workloads, errors and users say. In this order, since an
    escape in the midst of a secret would hide it from what looks for it."""
    return visible(redact(text))


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
