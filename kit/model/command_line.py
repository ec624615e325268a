"""The command line of ``kit compare`` that asks for a request, for users to paste. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kit.core.quantity import percentage, size
from kit.model.default import AUTO_ROUNDS
from kit.model.options import OPTIONS, Option
from kit.model.scenario import COPIES
from kit.model.session import Request

#: Fields of a request that are no entry of OPTIONS, with the option of each.
_PAIRS = {"params": "--param", "mkfs": "--mkfs", "mount": "--mount", "load_params": "--load-param"}
_TEXTS = {"device": "--device", "thin_device": "--thin-device", "export": "--export"}
_NUMBERS = {"guest_memory": "--guest-memory", "guest_cores": "--guest-cores"}
#: What a new session chooses for itself.
_ANEW = ("rounds", "precision", "budget", "seed")


def until_decided_command(request: Request, budget: str) -> str:
    """Return the command of a new session like this request, which goes on until each arm is decided. ``budget``: as a
    user writes it. '' if no command line says the same: filesystem profiles come from a file."""
    if request.profiles or request.suite:
        return ""
    words = ["kit", "compare", *([request.scenario] if request.scenario else [])]
    if request.arms:
        words += ["--arms", ",".join(request.arms)]
    for option in OPTIONS.values():
        if option.name not in _ANEW:
            words += _words(option, getattr(request, option.name))
    words += _others(request)
    words += ["--rounds", "auto", "--budget", budget]
    return shlex.join([*words, "--", *request.command] if request.command else words)


def asked_anew(request: Request) -> Request:
    """Return the request that ``until_decided_command`` asks for, but for its budget."""
    return replace(request, rounds=AUTO_ROUNDS, precision=None, budget=None, seed=0)


def _words(option: Option, value: Any) -> Iterator[str]:
    """Yield the option, where its value is not the default."""
    if option.kind is bool:
        yield from _switch(option, value)
    elif option.name == "revisions":
        if value:
            yield from (option.words, ",".join(f"{name}={text}" for name, text in value))
    elif option.kind is dict:
        for name, text in value:
            yield from (option.words, f"{name}={text}")
    else:
        text = _as_written(option, value)
        if text not in ("", option.default):
            yield from (option.words, text)


def _switch(option: Option, value: bool | None) -> Iterator[str]:
    positive, _, negative = option.words.partition("/")
    if negative:
        yield from [] if value is None else [positive if value else negative]
    elif bool(value) != option.negated:
        yield positive


def _as_written(option: Option, value: Any) -> str:
    if value is None:
        return ""
    if option.read is percentage:
        return f"{100 * value:.9g}%"
    if option.read is size:
        return _size(value)
    return f"{value:.0f}s" if isinstance(value, float) else str(value)


def _size(value: int) -> str:
    units: Mapping[str, int] = {"G": 1 << 30, "M": 1 << 20, "K": 1 << 10}
    unit = next((unit for unit, factor in units.items() if value and value % factor == 0), "")
    return f"{value // units.get(unit, 1)}{unit}" if value else ""


def _others(request: Request) -> Iterator[str]:
    for name, option in _PAIRS.items():
        for key, text in getattr(request, name):
            yield from ("--copies", text) if name == "params" and key == COPIES else (option, f"{key}={text}")
    for name, option in _TEXTS.items():
        if getattr(request, name):
            yield from (option, getattr(request, name))
    for name, option in _NUMBERS.items():
        if getattr(request, name):
            yield from (option, str(getattr(request, name)) if name == "guest_cores" else _size(getattr(request, name)))
