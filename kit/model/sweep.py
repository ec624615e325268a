"""Sweeps: parameters with several values, and the points of their grid. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from itertools import product

from kit.core.errors import UsageError

Values = tuple[tuple[str, str], ...]

#: The parameter of every scenario: how many copies of it run at once.
COPIES = "copies"
#: Most points of one sweep: each is run on every arm in every round.
MOST_POINTS = 1000
#: Most digits of a number of copies.
_DIGITS = 3

_COMMA = re.compile(r"(?<!\\),")
_JOINT = "; "


def split_values(text: str) -> tuple[str, ...]:
    r"""``1,2,4`` → its values; ``\,`` means a comma that belongs to a value."""
    return tuple(part.replace("\\,", ",") for part in _COMMA.split(text))


def join_values(values: Sequence[str]) -> str:
    """Return the text that ``split_values`` splits."""
    return ",".join(value.replace(",", "\\,") for value in values)


def map_values(text: str, change: Callable[[str], str]) -> str:
    """Return the same list with each value changed."""
    return join_values([change(value) for value in split_values(text)])


def points(params: Sequence[tuple[str, str]]) -> dict[str, Values]:
    """Return every combination of the parameters' values: its label, which names only swept ones, and all its values.

    Without a list of values there is one point, with an empty label. A parameter given twice has the values of both.
    Raises UsageError."""
    listed: dict[str, tuple[str, ...]] = {}
    for name, text in params:
        listed[name] = listed.get(name, ()) + split_values(text)
    for name, several in listed.items():
        if len(set(several)) < len(several):
            raise UsageError(f"parameter {name}: a value is given twice", "name each value once")
        if len(several) > 1 and any(_JOINT in value or "=" in value for value in several):
            raise UsageError(f"parameter {name}: values with ';' or '=' can't be swept", "run one session per value")
    if math.prod(map(len, listed.values())) > MOST_POINTS:
        raise UsageError(f"the parameters' values span more than {MOST_POINTS} points", "sweep fewer values")
    by_label = {}
    for choice in product(*listed.values()):
        chosen = tuple((name, value) for name, value in zip(listed, choice, strict=True))
        by_label[_JOINT.join(f"{name}={value}" for name, value in chosen if len(listed[name]) > 1)] = chosen
    return by_label


def parse_point(label: str) -> dict[str, str]:
    """Parse ``jobs=2; config=tinyconfig`` as values by name; a word alone, in an imported session, has no values."""
    parts = (word.partition("=") for word in label.split(_JOINT) if word)
    return {name: value for name, _, value in parts}


def with_copies(label: str, params: Values) -> str:
    """Return a point's label with the number of copies, also if ``params`` fix it; one copy is not named."""
    parts = [part for part in label.split(_JOINT) if part]
    if COPIES not in parse_point(label):
        parts.append(f"{COPIES}={dict(params).get(COPIES, '1')}")
    return _JOINT.join(part for part in parts if part != f"{COPIES}=1")


def copies_at(label: str, params: Values = ()) -> int:
    """Return how many copies ran at once at a point of a session with these parameters; 1 if an imported session does
    not say."""
    text = {**dict(params), **parse_point(label)}.get(COPIES, "1")
    return max(int(text), 1) if text.isdecimal() and len(text) <= _DIGITS else 1


def positive_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value > 0 and math.isfinite(value) else None
