"""Runs that others timed, as samples of arms."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.cli.infile import read_text
from kit.cli.streams import complain
from kit.core.errors import UsageError
from kit.core.sanitize import printable
from kit.extra.exchange.runs import read_runs
from kit.extra.exchange.runs.timed_run import TimedRun
from kit.model.arm import spelled
from kit.model.sample import IMPORTED, Phase, Sample
from kit.report.format.table import render_table

#: Most characters of an arm's name, of those that a file gives.
_LONGEST = 100
_CLOCKS = ("real", "user", "sys")


def pattern_of(text: str) -> re.Pattern[str] | None:
    """Return the pattern that chooses runs by name; None if all are taken. Raises UsageError."""
    try:
        return re.compile(text) if text else None
    except re.error as error:
        raise UsageError(
            f"--arm-pattern {text}: {error}", "use a regular expression, for example '\\[(.*)\\]'"
        ) from None


@dataclass(frozen=True)
class LabelledRun:
    """``modified``: Unix time of the file."""

    path: Path
    modified: float
    label: str
    run: TimedRun


def read_labelled(
    files: tuple[str, ...], limit: int, pattern: re.Pattern[str] | None, form: str
) -> tuple[LabelledRun, ...]:
    """Return every run of the files. ``files``: FILE or LABEL=FILE. ``limit``: bytes of a file. ``form``: the only form
    to read, or ''. Raises UsageError."""
    labelled: list[LabelledRun] = []
    for word in files:
        label_of_file, path = _split(word)
        text = read_text(str(path), limit, "--limit")
        modified = max(path.stat().st_mtime, 0.0)
        runs = read_runs(text, str(path), form)
        if any(run.mean for run in runs):
            complain(f"kit: {path}: the mean of its runs is imported as one run, since it has no single ones")
        labels = _labels([run.name for run in runs], label_of_file, path, pattern)
        labelled += (LabelledRun(path, modified, label, run) for label, run in zip(labels, runs, strict=True) if label)
    if not labelled:
        raise UsageError("no run has a name that matches --arm-pattern", "use '(.*)' to take all names")
    return tuple(labelled)


def _split(word: str) -> tuple[str, Path]:
    """Return the label, or '', and the path. A file that exists wins, since paths and labels may have ``=``."""
    ways = [("", word), *((word[: at.start()], word[at.end() :]) for at in re.finditer("=", word))]
    label, name = next((way for way in ways if Path(way[1]).is_file()), ways[min(1, len(ways) - 1)])
    return label, Path(name)


def samples_of(runs: Sequence[LabelledRun]) -> tuple[Sample, ...]:
    """Return each run as a sample, in the rounds of its label."""
    samples: list[Sample] = []
    rounds: Counter[str] = Counter()
    for labelled in runs:
        label, run = labelled.label, labelled.run
        rounds[label] += 1
        status = "failed" if run.error else "ok"
        figures: dict[str, Any] = dict(run.figures)
        phases = (Phase("run", status, **figures),)
        samples.append(Sample(label, rounds[label], IMPORTED, status, labelled.modified, phases, error=run.error))
    return tuple(samples)


def describe(runs: Sequence[LabelledRun]) -> str:
    """Return a table of what was understood, one row for each run."""
    rows = [
        (
            str(each.path),
            each.run.form,
            each.label,
            *(_seconds(each.run, key) for key in _CLOCKS),
            each.run.error or "ok",
        )
        for each in runs
    ]
    return render_table(rows, ("file", "form", "label", "real s", "user s", "sys s", "status"), "simple")


def _seconds(run: TimedRun, key: str) -> str:
    return f"{run.figures[key]:.10g}" if key in run.figures else ""


def _labels(names: Sequence[str], file_label: str, path: Path, pattern: re.Pattern[str] | None) -> list[str]:
    """Return a label for each run of a file; '' for those that the pattern leaves out. ``file_label``: the user's label
    of the file, or ''."""
    labels = [_label(name, pattern) for name in names]
    several = len(set(labels) - {""})
    if file_label and several > 1:
        raise UsageError(
            f"{path}: it has {several} names for the label {file_label!r}",
            "give the file without a label, or --arm-pattern",
        )
    if file_label or (several < 2 and not pattern):
        return [spelled(file_label or path.stem) if label or not pattern else "" for label in labels]
    return labels if pattern else [label or spelled(path.stem) for label in labels]


def _label(name: str, pattern: re.Pattern[str] | None) -> str:
    """Return the part of a name that labels its arm, in one line."""
    match = pattern.search(name) if pattern else None
    if pattern and match is None:
        return ""
    text = match[1 if pattern and pattern.groups else 0] or "" if match else name
    label = " ".join(printable(text).split())
    if len(label) > _LONGEST:
        raise UsageError(f"'{label[:40]} …' is too long for the name of an arm", "shorten it by --arm-pattern")
    return spelled(label)
