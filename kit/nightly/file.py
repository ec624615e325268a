"""Nightly files: one TOML file says what is run every night and what it may cost. Pure: takes text, gives a Job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict, TypeVar

from kit.analysis.changepoint import CONFIRM
from kit.analysis.night import DEFAULT_OUTPUT, Job, Task
from kit.analysis.regression import LIMIT, RULES
from kit.analysis.threshold import parse_threshold
from kit.core.errors import UsageError
from kit.core.quantity import duration, percentage, size
from kit.core.table import UnknownKeyError, WrongTypeError, read_table
from kit.core.toml import parse_toml
from kit.model.arm import parse_arms
from kit.model.drivers import DEFAULT_ENGINE, SESSION_ENGINES
from kit.model.plan import AUTO, CACHES, slice_of
from kit.model.session import Request

T = TypeVar("T")


class _File(TypedDict, total=False):
    store: str
    output: str
    budget: str
    wait_idle: str
    confirm: int
    defaults: dict[str, Any]
    tasks: list[Any]


class _Plain(TypedDict, total=False):
    """What goes into a request as it stands."""

    scenario: str
    command: tuple[str, ...]
    title: str
    source: str
    prepare: str
    image: str
    rootfs: str
    baseline: str
    engine: str
    cache: str
    load: str
    interleave: str
    guest: str
    kernel: str
    modules: str
    docker: str
    directory: str
    rounds: int
    seed: int
    control: bool
    repeats: bool
    fresh: bool
    explain_calls: bool
    profile: bool


class _TaskTable(_Plain, total=False):
    """A task, or what all tasks have in common."""

    arms: tuple[str, ...]
    filesystems: tuple[str, ...]
    params: dict[str, Any]
    load_params: dict[str, Any]
    margin: str
    precision: str
    budget: str
    size: str
    timeout: str
    thresholds: tuple[str, ...]
    across: tuple[str, ...]
    on: str


_QUANTITIES: dict[str, Callable[[str, str], float | int]] = {
    "margin": percentage, "precision": percentage, "budget": duration, "size": size, "timeout": duration,
}  # fmt: skip
#: Of quantities that a task always has. A night that hangs would hold the machine for good.
_ALWAYS = {"size": "20G", "timeout": "2h"}


def parse_nightly(text: str, source: str, name: str) -> Job:
    """The job that a file describes; ``source`` names it in errors. Raises UsageError."""
    data = _read(_File, parse_toml(text, source), source)
    defaults = _read(_TaskTable, data.get("defaults", {}), f"{source}: defaults")
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


def _read(kind: type[T], data: Any, where: str) -> T:
    try:
        return read_table(kind, data)
    except UnknownKeyError as error:
        raise UsageError(f"{where}: unknown key '{error.key}'", f"known: {error.known}") from None
    except WrongTypeError as error:
        if not error.key:
            raise UsageError(f"{where}: not a table", "for example [[tasks]]") from None
        raise UsageError(f"{where}: {error.key} must be {error.wanted}", "see docs/nightly.md for an example") from None


def _task(task: Any, defaults: _TaskTable, where: str) -> Task:
    given: Mapping[str, Any] = {**defaults, **_read(_TaskTable, task, where)}
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
        listed = given.get("arms", ())
        arms = parse_arms(",".join(listed), engine, given.get("filesystems", ())) if listed else ()
        quantities = {
            key: _QUANTITIES[key](text, key) for key, text in {**_ALWAYS, **given}.items() if key in _QUANTITIES
        }
        slice_of(given.get("interleave", AUTO))
        thresholds = tuple(parse_threshold(text, engine) for text in given.get("thresholds", ()))
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}", error.hint) from None
    plain = {key: given[key] for key in _Plain.__annotations__ if key in given}
    request = Request(
        arms=tuple(map(str, arms)),
        params=_pairs(given, "params", where),
        load_params=_pairs(given, "load_params", where),
        **plain,
        **quantities,  # type: ignore[arg-type]
    )
    strange = [item for item in thresholds if arms and item.arm not in map(str, arms)]
    if strange:
        raise UsageError(f"{where}: threshold '{strange[0]}' is of an arm that is not run", f"arms = {list(listed)}")
    return Task(request, thresholds, given.get("across", ()), given.get("on", LIMIT))


def _pairs(given: Mapping[str, Any], key: str, where: str) -> tuple[tuple[str, str], ...]:
    for name, value in given.get(key, {}).items():
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise UsageError(f"{where}: {key}.{name} is neither text nor a number", f'several values: {name} = "1,2,4"')
    return tuple((name, str(value)) for name, value in given.get(key, {}).items())
