"""Options of a request, declared once: for the command line, night files and pytest. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kit.core.errors import UsageError
from kit.core.quantity import duration, named, pairs, percentage, size, table_pairs
from kit.model.default import AUTO, AUTO_ROUNDS, CACHES, DEFAULT_ENGINE, DEFAULT_IMAGE
from kit.model.fact import LABEL


@dataclass(frozen=True)
class Option:
    """An option for the field ``name`` of a request. ``default``: as a user would write it. ``kind``: its type in a
    file; that of a repeatable option is dict. ``read``: converts a user's value to the request's; errors name the
    option. ``flag``: its name on the command line, if different."""

    name: str
    help: str
    metavar: str | None = None
    default: Any = ""
    choices: tuple[str, ...] = ()
    kind: type = str
    read: Callable[[Any, str], Any] | None = None
    flag: str = ""

    @property
    def words(self) -> str:
        """Return the option as on the command line."""
        return self.flag or f"--{self.name.replace('_', '-')}"

    @property
    def negated(self) -> bool:
        """Return whether the option on the command line sets the field to false."""
        return self.flag == f"--no-{self.name}"


def _rounds(text: str, option: str) -> int:
    """Return a number of rounds, AUTO_ROUNDS for ``auto``."""
    if text != "auto" and not (text.isdecimal() and int(text)):
        raise UsageError(f"{option} {text}: not a number of rounds", "use auto, or a number from 1 on")
    return AUTO_ROUNDS if text == "auto" else int(text)


def _labels(given: Any, option: str) -> tuple[tuple[str, str], ...]:
    """Return labels from a table, or from texts of the form KEY=VALUE."""
    found = dict(table_pairs(given, option) if isinstance(given, Mapping) else pairs(tuple(given), option))
    for key, text in found.items():
        if not re.fullmatch(LABEL.of, key):
            raise UsageError(f"{option} {key}: not a label's name", "use letters, digits, '_', '.' and '-'")
        if not text.isprintable() or len(text) > _LONGEST_LABEL:
            raise UsageError(f"{option} {key}: not one line", f"use {_LONGEST_LABEL} printable characters at most")
    return tuple(found.items())


def _revisions(given: Any, option: str) -> tuple[tuple[str, str], ...]:
    """Return revisions by name from a table, or from texts of the form REV,NAME=REV."""
    return named(given if isinstance(given, Mapping) else ",".join(given).split(",") if given else (), option)


_LONGEST_LABEL = 200
_TABLE = (
    Option("title", "Title of the session.  [the scenario, or the command's first words]"),
    Option("labels", "Label the session, for histories (repeatable).", "K=V", default=(), kind=dict, read=_labels,
           flag="--label"),
    Option("source", "Source tree for COMMAND.", "DIR"),
    Option("commands", "Compare this shell command with others like it (repeatable).", "[NAME=]CMD", default=(),
           kind=dict, read=named, flag="--command"),
    Option("revisions", "Compare these revisions of --source, a Git repository.", "REV,REV", default=(), kind=dict,
           read=_revisions, flag="--source-rev"),
    Option("prepare", "Shell command before each run of COMMAND, not timed.", "CMD"),
    Option("image", "Root filesystem: recipe, FILE[:NAME], OCI layout or registry reference.  [the scenario's; of "
           f"COMMAND the recipe {DEFAULT_IMAGE}]", "REF"),
    Option("rootfs", "Root filesystem from a directory.", "DIR"),
    Option("baseline", "Compare with this arm.  [bare on the same filesystem]", "ARM"),
    Option("engine", f"Use this engine where an arm names none: docker, docker@VERSION, or system.  [{DEFAULT_ENGINE}]",
           "ENGINE", default=DEFAULT_ENGINE),
    Option("cache", "State of the page cache before each run.  [warm]", default="warm", choices=CACHES),
    Option("cpuset", "Run the programs of all arms on these CPUs alone.", "0-3,6"),
    Option("load", "Run this beside each run: niced, on the same filesystem.", "SCENARIO"),
    Option("interleave", "Interleave the arms of a round: auto, off, or a slice length such as 0.5s.  [auto]", "MODE",
           default=AUTO),
    Option("guest", "Boot a guest kernel and run everything in it.", "[qemu|uml]", choices=("", "auto", "qemu", "uml")),
    Option("kernel", "The guest's kernel: a bzImage, or a User-Mode Linux.", "PATH"),
    Option("modules", "Modules for --kernel: its /lib/modules/VERSION.", "DIR"),
    Option("docker", "Use this dockerd, its directory, or docker-VERSION.tgz.", "PATH"),
    Option("directory", "Directory for arms on @dir.", "DIR", flag="--dir"),
    Option("rounds", "Number of rounds.  [auto: until each arm is decided]", "N|auto", default="auto", kind=int,
           read=_rounds),
    Option("seed", "Order of the runs.  [random, recorded]", kind=int, default=None),
    Option("control", "Run the baseline twice in each round, to show the noise.  [unless --rounds is below 4]",
           default=None, kind=bool, flag="--control/--no-control"),
    Option("rerun", "Do not rerun disturbed runs.", kind=bool, default=False, flag="--no-rerun"),
    Option("fresh", "Make a new filesystem for each run.", kind=bool, default=False),
    Option("explain_calls", "Trace system calls in three more rounds; see kit show --calls.", kind=bool, default=False),
    Option("profile", "Sample stacks in three more rounds; see kit show --profile.", kind=bool, default=False),
    Option("margin", "Treat differences below this as equivalent.  [3%]", "P%", default="3%", read=percentage),
    Option("precision", "Continue until the half-width of each ratio is this, up to 100 rounds.", "P%", default=None,
           read=percentage),
    Option("budget", "Stop after this long.  [10m with --rounds auto]", "DURATION", default=None, read=duration),
    Option("timeout", "End a longer run, its preparation included: it failed.", "DURATION", default=None,
           read=duration),
    Option("size", "Size of each (sparse) loop filesystem.  [20G]", default="20G", read=size),
)  # fmt: skip
OPTIONS: Mapping[str, Option] = {item.name: item for item in _TABLE}
#: Options of a request that pytest's command line also has.
SHARED = (
    "rounds", "precision", "budget", "margin", "timeout", "cache", "cpuset", "seed", "load", "interleave", "guest",
    "engine", "rerun", "explain_calls", "profile", "labels",
)  # fmt: skip


def read_text_as(item: Option, text: str, where: str) -> Any:
    """Return text of a file without types as a nightly file would have it; errors name ``where``. Raises UsageError."""
    if item.choices and text not in item.choices:
        raise UsageError(f"{where}: unknown value '{text}'", f"use one of: {', '.join(filter(None, item.choices))}")
    if item.kind is dict:
        return text.splitlines()
    if item.kind is bool:
        if text.lower() not in _TRUTH:
            raise UsageError(f"{where}: '{text}' is not true or false", "use true or false")
        return _TRUTH[text.lower()]
    if item.kind is int and not item.read:
        if not re.fullmatch(r"[0-9]{1,9}", text):
            raise UsageError(f"{where}: '{text}' is not a whole number", "use digits")
        return int(text)
    return text


_TRUTH = {"true": True, "false": False}


def as_written(value: Any) -> Any:
    """Return a number of a file as text, as on the command line."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def read_quantities(given: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the values of numbers of rounds, sizes, times and percentages given as text, and of labels. ``prefix``:
    precedes an option's name in errors. Raises UsageError."""
    found = {}
    for item in OPTIONS.values():
        value = given.get(item.name)
        if item.read and (isinstance(value, str) or (item.kind is dict and value is not None)):
            name = item.words.replace("--", prefix, 1) if prefix else item.name
            found[item.name] = item.read(value, name)
    return found
