"""Safe display of text from workloads, imports and names: no cursor control, no change of text direction, no secrets.
Pure."""

from __future__ import annotations

import re

from kit.core.redact import redact

#: Control characters (C0, DEL, C1) except tab and line ends, direction marks and overrides, separators that end a line,
#: and characters that XML forbids: surrogates and noncharacters.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff]"
    "|\r(?!\n)"
)


def visible(text: str) -> str:
    """With an escape in the place of each character that acts instead of being seen: ``\\x1b``, ``\\u202e``."""
    return _HIDDEN.sub(_escape, text) if _HIDDEN.search(text) else text


def printable(text: str) -> str:
    """Return ``visible`` text without passwords and tokens, for text of workloads, errors and users. Secrets are
    removed first, since an escape inside a secret would hide it."""
    return visible(redact(text))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
