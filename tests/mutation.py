"""Sessions as a store may hold them: every value of its type, and as odd as can be."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from kit.core.codec import decode, encode
from kit.core.errors import UsageError
from kit.model.session import Session
from kit.parsers.task import BuildTask
from tests.hostile import CONTROL, MARKUP
from tests.nights import ladder_session, night

_TEXTS = (
    "", " ", "x" * 10_000, "nan", "unknown arm", "layer:overlay2", "bare", "bare+control", "total", "real", "=1+1",
    CONTROL, MARKUP, "../../x", "a\nb", "{", "{0}", "{driver}", "%s %(x)s", "jobs=2", "jobs=2; x=y", "=", "; ", "²",
    "-", "done", "ok",
    "host", "measured", "warmup", "imported", "failed", "https://u:p@h", "1e999", "dusk 🦊",
)  # fmt: skip
_FLOATS = (
    0.0,
    -0.0,
    -1.0,
    1e-300,
    5e-324,
    1e308,
    -1e308,
    1.7e308,
    1e15,
    0.5,
    3.0,
    2.0**53,
    -62135596801.0,
    253402300800.0,
)
_INTEGERS = (0, -1, 1, 2, 3, 7, 10**6, 2**31 - 1, -(2**31))
_EITHER = (None, *_FLOATS)


def mutated(dice: random.Random) -> Session:
    """One of several sessions with one to six of its values, lists or mappings changed, as far as it can be stored."""
    while True:
        try:
            return decode(Session, _mutated(dice))
        except UsageError:  # refused where it is read
            continue


def _mutated(dice: random.Random) -> Any:
    base: Callable[[], Session] = dice.choice((ladder_session, lambda: night(1, 0.05), _swept, _short))
    data: Any = _plain(base())
    for _ in range(dice.choice((1, 1, 2, 3, 6))):
        places = list(_places(data, ()))
        # Samples are most of it: half of the changes are elsewhere.
        places = [place for place in places if place != ("id",)]
        few = [place for place in places if place[0] != "samples"]
        _change(data, dice.choice(few if dice.random() < 0.5 else places), dice)
    return data


def _plain(session: Session) -> Any:
    """Lists and dicts, which can be changed."""
    return json.loads(json.dumps(encode(session)))


def _swept() -> Session:
    data: Any = _plain(ladder_session())
    twice = [{**sample, "point": f"jobs={jobs}"} for sample in data["samples"] for jobs in (1, 2, 8)]
    for sample in twice:
        for phase in sample["phases"]:
            phase["reported"] = [{"name": "speed", "value": 3.5, "unit": "MB/s", "better": "more"}]
            phase["tasks"] = [encode(BuildTask(kind, "zip", 0.1, 0.5, 0.2, 0.1)) for kind in ("compile", "install")]
    return decode(Session, {**data, "samples": twice})


def _short() -> Session:
    data: Any = _plain(night(1, 0.05))
    return decode(Session, {**data, "samples": data["samples"][:2]})


def _places(data: Any, path: tuple[Any, ...]) -> Any:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from _places(value, (*path, key))


def _change(data: Any, path: tuple[Any, ...], dice: random.Random) -> None:
    for key in path[:-1]:
        data = data[key]
    key, value = path[-1], data[path[-1]]
    if isinstance(value, list):
        data[key] = dice.choice(([], value * 2, value[::-1], value[:1])) if _may_vary(path) else value[::-1]
    elif isinstance(value, dict):
        if key == "facts":
            data[key] = dice.choice(({}, {dice.choice(_TEXTS): dice.choice(_TEXTS)}, {"kernel": "", "guest": "uml"}))
    elif isinstance(value, bool):
        data[key] = not value
    elif isinstance(value, str):
        data[key] = dice.choice(_TEXTS)
    elif isinstance(value, int) or key in ("exit_code", "signal", "repeats"):
        data[key] = dice.choice(_INTEGERS)
    else:
        data[key] = dice.choice(_EITHER if _optional(path) else _FLOATS)


def _may_vary(path: tuple[Any, ...]) -> bool:
    """Not the pairs, whose length is of their type."""
    return not (
        isinstance(path[-1], int)
        and path[-2] in ("baselines", "digests", "params", "mkfs", "mount", "profiles", "load_params")
    )


def _optional(path: tuple[Any, ...]) -> bool:
    return path[-1] not in ("created", "started")
