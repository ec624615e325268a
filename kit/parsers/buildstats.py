"""bitbake's buildstats (meta/classes-global/buildstats.bbclass): a file for each task, ``…/RECIPE-VERSION/do_TASK``, as
``grep -r '' buildstats`` prints them: ``PATH:KEY: VALUE``.

Names, and which figures make up a task's CPU, are as in poky's scripts/lib/buildstats.py, whose buildstats-diff comes
to the same sums.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from kit.parsers.task import BuildTask
from kit.parsers.tried import Tried

TRIED = (Tried("bitbake", ("Yocto 5.0.15",)),)
_LINE = re.compile(r"(?:.*/)?(?P<recipe>[^/:]+)/do_(?P<kind>[^/:]+):(?P<key>[^:]+): *(?P<value>\S+)")
#: The name without version and revision: a version begins with a digit, if any does.
_RECIPES = re.compile(r"(\S+)-(?:\d{1,5}_)?\d\S*"), re.compile(r"(\S+)-(?:\d{1,5}_)?[^-]+")
#: Most characters of a recipe with its version: the patterns above take quadratic time.
_LONGEST = 400
_SECONDS = "Started", "Ended", "rusage ru_utime", "rusage ru_stime", "Child rusage ru_utime", "Child rusage ru_stime"
_BYTES = "IO read_bytes", "IO write_bytes"


def parse_buildstats(text: str) -> tuple[BuildTask, ...]:
    """Return the tasks in the order of their starts; ``started`` is Unix time. Tasks without a recorded end are left
    out, such as one missing from the shared state after all. Raises ValueError for an invalid figure."""
    by_file: dict[str, dict[str, float]] = {}  # by file: two configurations of one build may hold the same task
    names: dict[str, tuple[str, str]] = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match and match["key"] in (*_SECONDS, *_BYTES):
            # A task that ran twice has written twice into its file: the last one counts.
            file = line[: match.start("key")]
            names[file] = match["recipe"], match["kind"]
            by_file.setdefault(file, {})[match["key"]] = _number(match["value"], line)
    tasks = (
        _task(*names[file], figures) for file, figures in by_file.items() if {"Started", "Ended"} <= figures.keys()
    )
    return tuple(sorted(tasks, key=lambda task: (task.started, task.recipe, task.kind)))


def _number(value: str, line: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number < 1e15:
        raise ValueError(f"no figure in the line {line!r}")
    return number


def _task(recipe: str, kind: str, figures: Mapping[str, float]) -> BuildTask:
    return BuildTask(
        kind,
        _name(recipe),
        figures["Started"],
        max(0.0, figures["Ended"] - figures["Started"]),
        _with_children("ru_utime", figures),
        _with_children("ru_stime", figures),
        *(figures.get(key) for key in _BYTES),
    )


def _with_children(name: str, figures: Mapping[str, float]) -> float | None:
    """Return the time including children; None in releases that don't record it, such as those before 2.0."""
    own_time = figures.get(f"rusage {name}")
    return None if own_time is None else own_time + figures.get(f"Child rusage {name}", 0.0)


def _name(recipe: str) -> str:
    """Return ``zip-native`` for ``zip-native-3.0-r2``. Raises ValueError for a name that is too long."""
    if len(recipe) > _LONGEST:
        raise ValueError(f"a recipe's name of {len(recipe)} characters")
    whole, _, _ = recipe.rpartition("-")
    return next((match[1] for form in _RECIPES if (match := form.fullmatch(whole))), recipe)
