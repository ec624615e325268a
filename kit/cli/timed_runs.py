"""Runs that others timed, as samples of arms."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from kit.cli.infile import read_lines
from kit.core.errors import UsageError
from kit.core.sanitize import printable
from kit.model.arm import spelled
from kit.model.sample import IMPORTED, Phase, Sample
from kit.parsers.runs import read_runs

#: Most characters of an arm's name, of those that a file gives.
_LONGEST = 100


def pattern_of(text: str) -> re.Pattern[str] | None:
    """Return the pattern that chooses runs by name; None if all are taken. Raises UsageError."""
    try:
        return re.compile(text) if text else None
    except re.error as error:
        raise UsageError(
            f"--arm-pattern {text}: {error}", "use a regular expression, for example '\\[(.*)\\]'"
        ) from None


def read_samples(files: tuple[str, ...], limit: int, pattern: re.Pattern[str] | None) -> tuple[Sample, ...]:
    """Return every run of the files as a sample. ``files``: FILE or LABEL=FILE. ``limit``: bytes of a file. Raises
    UsageError."""
    samples: list[Sample] = []
    rounds: Counter[str] = Counter()
    for item in files:
        given, equals, name = item.partition("=")
        path = Path(name if equals else item)
        text = b"".join(read_lines(str(path), limit, "--limit")).decode(errors="replace")
        started = max(path.stat().st_mtime, 0.0)
        runs = read_runs(text, str(path))
        if any(run.mean for run in runs):
            click.echo(
                f"kit: {path}: the mean of its runs is imported as one run, since it has no single ones", err=True
            )
        labels = _labels([run.name for run in runs], given if equals else "", path, pattern)
        for label, run in zip(labels, runs, strict=True):
            if label:
                rounds[label] += 1
                status = "failed" if run.error else "ok"
                figures: dict[str, Any] = dict(run.figures)
                phases = (Phase("run", status, **figures),)
                samples.append(Sample(label, rounds[label], IMPORTED, status, started, phases, error=run.error))
    if not samples:
        raise UsageError("no run has a name that matches --arm-pattern", "use '(.*)' to take all names")
    return tuple(samples)


def _labels(names: Sequence[str], given: str, path: Path, pattern: re.Pattern[str] | None) -> list[str]:
    """Return a label for each run of a file; '' for those that the pattern leaves out. ``given``: the user's label of
    the file, or ''."""
    found = [_label(name, pattern) for name in names]
    several = len(set(found) - {""})
    if given and several > 1:
        raise UsageError(
            f"{path}: it has {several} names for the label {given!r}", "give the file without a label, or --arm-pattern"
        )
    if given or (several < 2 and not pattern):
        return [spelled(given or path.stem) if label or not pattern else "" for label in found]
    return found


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
