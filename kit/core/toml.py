"""TOML that users write: scenarios, nightly files, filesystem profiles. Pure: takes text, returns tables.

Tables contain only what the kit accepts: no NUL, no number beyond 64 bits, no nan, no unlimited nesting. Time and
memory are bounded for any text."""

from __future__ import annotations

import math
import re
import tomllib
from typing import Any

from kit.core.errors import UsageError

#: Most characters. The largest bundled scenario has 3,000.
LONGEST = 256 << 10
DEEPEST = 32

_PART = r"""(?:(?<![\w-])[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*"""
#: tomllib's time grows with the square of a dotted key's parts.
_DEEP_KEY = re.compile(rf"(?:{_PART}){{{DEEPEST}}}", re.ASCII)
_SIGNED = 63  # bits; what TOML asks of an integer


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """Return the tables of a document; ``where`` names it in errors. Raises UsageError."""
    if len(text) > LONGEST:
        raise UsageError(f"{where}: has {len(text)} characters", f"split it: {LONGEST} at most")
    if _DEEP_KEY.search(text):
        raise _too_deep(where)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where}: not valid TOML: {error}", "fix the file at that line") from None
    except ValueError:  # of int(): beyond the digits that it reads
        raise UsageError(
            f"{where}: a number in it has thousands of digits", "use a number of at most 64 bits"
        ) from None
    except RecursionError:
        raise _too_deep(where) from None
    _check(document, where)
    return document


def _too_deep(where: str) -> UsageError:
    return UsageError(f"{where}: tables or lists in it are nested too deep", f"use {DEEPEST} levels at most")


def _check(document: dict[str, Any], where: str) -> None:
    pending: list[tuple[Any, int]] = [(document, 0)]
    while pending:
        value, depth = pending.pop()
        if depth > DEEPEST:
            raise _too_deep(where)
        if isinstance(value, dict):
            pending += ((part, depth + 1) for pair in value.items() for part in pair)
        elif isinstance(value, list):
            pending += ((element, depth + 1) for element in value)
        elif isinstance(value, str) and "\0" in value:
            raise UsageError(f"{where}: a string in it holds a NUL", "remove it: no command and no path can hold one")
        elif isinstance(value, int) and value.bit_length() > _SIGNED:
            raise UsageError(f"{where}: a whole number in it is out of range", "use a number of at most 64 bits")
        elif isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{where}: a number in it is not finite", "give a number")
