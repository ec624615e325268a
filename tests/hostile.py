"""Sessions whose every text is hostile: markup, scripts, paths, control sequences, formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from kit.model.session import Session

MARKUP = "\"'/><script>window.pwned=1</script><img src=x onerror=window.pwned=1><svg onload=window.pwned=1>]]>&amp;"
CONTROL = "\x1b]0;title\x07\x1b[2J\x9b31m\x00\r\x08\u202eevil\u2066\ufffe\uffff\ud800"
PATH = "../../../etc/x/"

T = TypeVar("T")
#: Words of the kit's own, which a session that can be stored has in these places.
_WORDS = ("status", "kind", "better", "metric")


def with_texts(value: T, change: Callable[[str, str], str], name: str = "") -> T:
    """``value`` with every text in it changed: ``change(name of its field, text)``. Keys of mappings too."""
    made: Any = value
    if isinstance(value, str):
        made = value if name in _WORDS else change(name, value)
    elif is_dataclass(value) and not isinstance(value, type):
        made = replace(
            value, **{item.name: with_texts(getattr(value, item.name), change, item.name) for item in fields(value)}
        )
    elif isinstance(value, tuple):
        made = tuple(with_texts(item, change, name) for item in value)
    elif isinstance(value, Mapping):
        made = {with_texts(key, change, name): with_texts(item, change, name) for key, item in value.items()}
    result: T = made
    return result


def spoiled(session: Session, bad: str, arms_too: bool) -> Session:
    """Every text but the id, which its type checks; arms only if asked for, since the ladder reads them."""

    def change(name: str, text: str) -> str:
        is_arm = text in session.arms or not text
        if name == "id" or (is_arm and not arms_too):
            return text
        return f"{bad}{text}{bad}" if name == "title" else f"{text}{bad}"

    return with_texts(session, change)
