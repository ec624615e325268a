"""Nightly files: one TOML file lists nightly runs and their limits. Pure: takes text, returns a Job."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Any, TypedDict, TypeVar

from kit.analysis.session.threshold import parse_threshold
from kit.core.errors import UsageError
from kit.core.quantity import duration, table_pairs
from kit.core.table import UnknownKeyError, WrongTypeError, described_keys, read_table
from kit.core.toml import parse_toml
from kit.extra.history.analysis.changepoint import CONFIRM
from kit.extra.history.analysis.night import Task
from kit.extra.history.analysis.regression import LIMIT, RULES
from kit.extra.history.nightly.job import DEFAULT_OUTPUT, Job
from kit.model.arm import arm_names, arms_of, in_variants
from kit.model.default import DEFAULT_ENGINE
from kit.model.drivers import SESSION_ENGINES, is_session_engine
from kit.model.options import OPTIONS, Option, read_options
from kit.model.session import Request

T = TypeVar("T")


class _File(TypedDict, total=False):
    store: Annotated[str, "URL of the store; `KIT_STORE` and `--store` come first"]
    output: Annotated[str, "directory of the reports"]
    budget: Annotated[str, "no task begins later; a task with an open number of rounds ends by then"]
    wait_idle: Annotated[str, "wait this long at most for a quiet machine before each task"]
    confirm: Annotated[int, "sessions at a new level that make a change, at least 2"]
    keep: Annotated[str, "remove this machine's older sessions with the titles of tasks that ran, and their logs"]
    keep_changes: Annotated[bool, "keep those at change points of real time"]
    notify: Annotated[dict[str, Any], "where messages go"]
    defaults: Annotated[dict[str, Any], "keys of every task that does not set them"]
    tasks: Annotated[list[Any], "what is measured: `[[tasks]]`"]


class _NotifyTable(TypedDict, total=False):
    urls: Annotated[tuple[str, ...], "each `env:NAME`, `file:PATH` or a URL of Apprise"]


def _option_key(option: Option) -> Any:
    """Return the type of an option as a key, with its help. A key for --no-… is true without it."""
    text = f"`false`: {option.help[0].lower()}{option.help[1:]}" if option.negated else option.help
    return Annotated[option.file_type, text]


#: Keys copied unchanged into a request.
_PLAIN: dict[str, Any] = {
    "scenario": Annotated[str, "what runs, as for `kit compare`; or `command` or `commands`"],
    "command": Annotated[tuple[str, ...], "the words of a command of yours"],
}
#: Keys of a task, and keys that all tasks share.
_KEYS = {
    **_PLAIN,
    **{name: _option_key(option) for name, option in OPTIONS.items()},
    "arms": Annotated[tuple[str, ...], "the arms to compare"],
    "filesystems": Annotated[tuple[str, ...], "put arms that name no filesystem on each of these"],
    "params": Annotated[dict[str, Any], "parameters of the scenario"],
    "load_params": Annotated[dict[str, Any], "parameters of `load`"],
    "thresholds": Annotated[tuple[str, ...], "limits, each `ARM [PHASE] [METRIC] < P %`; not of a suite"],
    "ignore": Annotated[
        tuple[str, ...], "facts, or `sources`, `image`, `scenario`, `probe`, that may differ within a series"
    ],
    "on": Annotated[str, "what fails a night: `limit` (default) or `change`"],
}
_TaskTable: Any = TypedDict("_TaskTable", _KEYS, total=False)  # type: ignore[misc]
#: Defaults that every task has.
_ALWAYS = {name: option.night for name, option in OPTIONS.items() if option.night}
_DESTINATION = re.compile(r"env:\w+|file:[^\n]+|[A-Za-z][\w.+-]*://\S+", re.ASCII)


def known_keys() -> dict[str, dict[str, str]]:
    """Return the keys of each table, and what each is."""
    tables = {"top": _File, "[notify]": _NotifyTable, "[defaults], [[tasks]]": _TaskTable}
    return {where: described_keys(kind) for where, kind in tables.items()}


def usual_request() -> Request:
    """Return what a task without keys requests."""
    return Request(**read_options(_ALWAYS, ""))


def parse_nightly(text: str, source: str, name: str) -> Job:
    """Return the job that a file describes; ``source`` names the file in errors. Raises UsageError."""
    data = _read(_File, parse_toml(text, source), source)
    defaults = _read(_TaskTable, data.get("defaults", {}), f"{source}: defaults")
    tasks = data.get("tasks", [])
    if not tasks:
        raise UsageError(f"{source}: no [[tasks]]", 'add [[tasks]] and below it scenario = "kernel:short"')
    budget, idle, keep = data.get("budget"), data.get("wait_idle"), data.get("keep")
    if data.get("keep_changes") and not keep:
        raise UsageError(f"{source}: keep_changes needs keep", 'add for example keep = "90d"')
    confirm = data.get("confirm", CONFIRM)
    if confirm < 2:
        raise UsageError(
            f"{source}: confirm = {confirm} is below 2",
            "use 2 or more, or one noisy night would be a regression",
        )
    return Job(
        name=name,
        tasks=tuple(_task(task, defaults, f"{source}: task {i}") for i, task in enumerate(tasks, 1)),
        store=data.get("store", ""),
        output=data.get("output", DEFAULT_OUTPUT),
        budget=duration(budget, f"{source}: budget") if budget else None,
        wait_idle=duration(idle, f"{source}: wait_idle") if idle else None,
        confirm=confirm,
        keep=duration(keep, f"{source}: keep") if keep else None,
        keep_changes=data.get("keep_changes", False),
        notify=_notify(data["notify"], f"{source}: notify") if "notify" in data else (),
    )


def _notify(table: Any, where: str) -> tuple[str, ...]:
    """Return where messages go. An error quotes none of it: a URL is a secret."""
    urls = _read(_NotifyTable, table, where).get("urls", ())
    fix = 'use for example urls = ["env:KIT_NOTIFY_URL", "file:/etc/kit/notify.url"], or URLs of Apprise'
    if not urls:
        raise UsageError(f"{where}: no urls", fix)
    for number, text in enumerate(urls, 1):
        if not _DESTINATION.fullmatch(text):
            raise UsageError(f"{where}: item {number} of urls is neither env:NAME, file:PATH nor a URL", fix)
    return urls


def _read(kind: type[T], data: Any, where: str) -> T:
    try:
        return read_table(kind, data)
    except UnknownKeyError as error:
        raise UsageError(f"{where}: unknown key '{error.key}'", f"use one of: {error.known}") from None
    except WrongTypeError as error:
        if not error.key:
            raise UsageError(f"{where}: not a table", "use for example [[tasks]]") from None
        listed = kind is _TaskTable and error.wanted == "a list of strings"  # a URL of [notify] is a secret
        fix = (listed and _as_list(error.key, data[error.key])) or "see kit nightly --help for an example"
        raise UsageError(f"{where}: {error.key} must be {error.wanted}", fix) from None


def _as_list(key: str, value: Any) -> str:
    """Return how to write as a list what was written as a string; '' for anything else."""
    if not isinstance(value, str):
        return ""
    try:
        words = shlex.split(value) if key == "command" else [word.strip() for word in value.split(",")]
    except ValueError:  # an open quote
        words = ["sh", "-c", value]
    return f"write {key} = {json.dumps(words, ensure_ascii=False)}"


def _task(task: Any, defaults: Mapping[str, Any], where: str) -> Task:
    table: Mapping[str, Any] = {**defaults, **_read(_TaskTable, task, where)}
    if sum(bool(table.get(key)) for key in ("scenario", "command", "commands")) != 1:
        raise UsageError(
            f"{where}: give either scenario or command, or commands",
            'give one of them, for example scenario = "kernel:short"',
        )
    for name in OPTIONS.keys() & table:
        OPTIONS[name].check_choice(table[name], where)
    if table.get("on", LIMIT) not in RULES:
        raise UsageError(f"{where}: unknown on = '{table['on']}'", f"use one of: {', '.join(RULES)}")
    if table.get("rounds", 1) < 1:
        raise UsageError(f"{where}: rounds = {table['rounds']} is below 1", "use 1 or more; 3 give a useful interval")
    engine = table.get("engine", DEFAULT_ENGINE)
    if not is_session_engine(engine):
        raise UsageError(f"{where}: unknown engine = '{engine}'", f"use one of: {', '.join(SESSION_ENGINES)}")
    try:
        listed = table.get("arms", ())
        names = arm_names(",".join(listed), table.get("filesystems", ())) if listed else ()
        options = read_options({**_ALWAYS, **table}, "")
        several = (options.get("commands", ()), options.get("revisions", ()))
        arms = tuple(map(str, in_variants(arms_of(names, engine), *several))) if names else ()
        thresholds = tuple(parse_threshold(text, engine) for text in table.get("thresholds", ()))
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}", error.hint) from None
    plain = {key: table[key] for key in _PLAIN if key in table}
    request = Request(
        arms=names,
        params=table_pairs(table.get("params", {}), f"{where}: params"),
        load_params=table_pairs(table.get("load_params", {}), f"{where}: load_params"),
        **plain,
        **options,
    )
    strange = [threshold for threshold in thresholds if arms and threshold.arm not in arms]
    if strange:
        raise UsageError(
            f"{where}: threshold '{strange[0]}': its arm is not in this task", f"use one of the arms {list(listed)}"
        )
    return Task(request, thresholds, table.get("ignore", ()), table.get("on", LIMIT))
