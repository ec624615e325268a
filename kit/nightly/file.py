"""Nightly files: one TOML file says what is run every night and what it may cost. Pure: takes text, gives a Job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kit.analysis.changepoint import CONFIRM
from kit.analysis.night import DEFAULT_OUTPUT, Job, Task
from kit.analysis.regression import LIMIT, RULES
from kit.analysis.threshold import parse_threshold
from kit.core.errors import UsageError
from kit.core.quantity import duration, percentage, size
from kit.core.toml import parse_toml
from kit.model.arm import DEFAULT_ENGINE, SESSION_ENGINES, parse_arms
from kit.model.plan import CACHES
from kit.model.session import Request

_TOP = {"store": str, "output": str, "budget": str, "wait_idle": str, "confirm": int, "defaults": dict, "tasks": list}
_LISTS = {"arms": list, "filesystems": list, "thresholds": list, "across": list, "command": list}
_TEXTS = (
    "scenario", "title", "source", "prepare", "image", "rootfs", "baseline", "cache", "engine", "load", "guest",
    "kernel", "modules", "docker", "directory", "precision", "budget", "size", "timeout", "on",
)  # fmt: skip
_TASK: dict[str, type] = {
    **_LISTS, **dict.fromkeys(_TEXTS, str), "rounds": int, "seed": int, "control": bool, "fresh": bool,
    "params": dict, "load_params": dict,
}  # fmt: skip
#: What goes into a request as it stands.
_PLAIN = (
    "scenario", "title", "source", "prepare", "image", "rootfs", "baseline", "cache", "engine", "load", "guest",
    "kernel", "modules", "docker", "directory", "rounds", "seed", "control", "fresh",
)  # fmt: skip
_QUANTITIES: dict[str, Callable[[str, str], float | int]] = {
    "precision": percentage, "budget": duration, "size": size, "timeout": duration,
}  # fmt: skip
#: Of quantities that a task always has. A night that hangs would hold the machine for good.
_ALWAYS = {"size": "20G", "timeout": "2h"}


def parse_nightly(text: str, source: str, name: str) -> Job:
    """The job that a file describes; ``source`` names it in errors. Raises UsageError."""
    data = parse_toml(text, source)
    _check(data, _TOP, source)
    defaults = data.get("defaults", {})
    _check(defaults, _TASK, f"{source}: defaults")
    tasks = data.get("tasks", [])
    if not tasks:
        raise UsageError(f"{source}: no [[tasks]]", '[[tasks]]\n  scenario = "kernel:short"')
    budget, idle = data.get("budget"), data.get("wait_idle")
    confirm = data.get("confirm", CONFIRM)
    if confirm < 2:
        raise UsageError(f"{source}: confirm = {confirm}", "at least 2: one noisy night is no regression")
    return Job(
        name=name,
        tasks=tuple(_task(task, defaults, f"{source}: task {i}") for i, task in enumerate(tasks, 1)),
        store=data.get("store", ""),
        output=data.get("output", DEFAULT_OUTPUT),
        budget=duration(budget, f"{source}: budget") if budget else None,
        wait_idle=duration(idle, f"{source}: wait_idle") if idle else None,
        confirm=confirm,
    )


def _check(given: Any, known: Mapping[str, type], where: str) -> None:
    if not isinstance(given, dict):
        raise UsageError(f"{where}: not a table", "for example [[tasks]]")
    for key, value in given.items():
        if key not in known:
            raise UsageError(f"{where}: unknown key '{key}'", f"known: {', '.join(sorted(known))}")
        if not isinstance(value, known[key]) or (isinstance(value, bool) and known[key] is not bool):
            raise UsageError(f"{where}: {key} must be {_KINDS[known[key]]}", "see docs/nightly.md for an example")
        if isinstance(value, list) and key in _LISTS and not all(isinstance(item, str) for item in value):
            raise UsageError(f"{where}: {key} must be a list of strings", f'{key} = ["…"]')


_KINDS = {str: "a string", int: "a whole number", bool: "true or false", list: "a list", dict: "a table"}


def _task(task: Any, defaults: Mapping[str, Any], where: str) -> Task:
    _check(task, _TASK, where)
    given = {**defaults, **task}
    if bool(given.get("scenario")) == bool(given.get("command")):
        raise UsageError(f"{where}: give either scenario or command", 'scenario = "kernel:short"')
    if given.get("cache", "warm") not in CACHES:
        raise UsageError(f"{where}: cache = '{given['cache']}'", f"use one of: {', '.join(CACHES)}")
    if given.get("on", LIMIT) not in RULES:
        raise UsageError(f"{where}: on = '{given['on']}'", f"what it fails on is one of: {', '.join(RULES)}")
    if given.get("rounds", 1) < 1:
        raise UsageError(f"{where}: rounds = {given['rounds']}", "1 at least; 3 for an interval worth the name")
    engine = given.get("engine", DEFAULT_ENGINE)
    if engine not in SESSION_ENGINES:
        raise UsageError(f"{where}: engine = '{engine}'", f"use one of: {', '.join(SESSION_ENGINES)}")
    try:
        listed = given.get("arms") or []
        arms = parse_arms(",".join(listed), engine, tuple(given.get("filesystems", ()))) if listed else ()
        quantities = {
            key: _QUANTITIES[key](text, key) for key, text in {**_ALWAYS, **given}.items() if key in _QUANTITIES
        }
        thresholds = tuple(parse_threshold(text, engine) for text in given.get("thresholds", ()))
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}", error.hint) from None
    plain = {key: given[key] for key in _PLAIN if key in given}
    request = Request(
        command=tuple(given.get("command", ())),
        arms=tuple(map(str, arms)),
        params=_pairs(given, "params", where),
        load_params=_pairs(given, "load_params", where),
        **plain,
        **quantities,  # type: ignore[arg-type]
    )
    strange = [item for item in thresholds if arms and item.arm not in map(str, arms)]
    if strange:
        raise UsageError(f"{where}: threshold '{strange[0]}' is of an arm that is not run", f"arms = {listed}")
    return Task(request, thresholds, tuple(given.get("across", ())), given.get("on", LIMIT))


def _pairs(given: Mapping[str, Any], key: str, where: str) -> tuple[tuple[str, str], ...]:
    for name, value in given.get(key, {}).items():
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise UsageError(f"{where}: {key}.{name} is neither text nor a number", f'several values: {name} = "1,2,4"')
    return tuple((name, str(value)) for name, value in given.get(key, {}).items())
