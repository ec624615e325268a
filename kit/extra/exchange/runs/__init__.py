"""Readers of what other programs have timed: text in, runs out. A program's file is a file here and a line below; a
form of text is a row of ``forms``. Pure."""

from __future__ import annotations

import json
import pkgutil
import re
from dataclasses import replace

from kit.core.errors import UsageError
from kit.extra.exchange.runs.timed_run import TimedRun

#: Each program that writes files of its own and its reader, imported on use; the first that finds runs counts. A reader
#: returns nothing for a text of another program, and raises UsageError for its own that can't be read.
READERS = {
    "hyperfine": "kit.extra.exchange.runs.hyperfine:read_hyperfine",
    "pytest-benchmark": "kit.extra.exchange.runs.pytest_benchmark:read_pytest_benchmark",
    "pyperf": "kit.extra.exchange.runs.pyperf:read_pyperf",
    "benchexec": "kit.extra.exchange.runs.benchexec:read_benchexec",
    "runexec": "kit.extra.exchange.runs.benchexec:read_runexec",
    "perfgate": "kit.extra.exchange.runs.perfgate:read_perfgate",
    "google-benchmark": "kit.extra.exchange.runs.google_benchmark:read_google_benchmark",
}


#: Every reader, of forms too, as ``tried`` takes them.
MAKERS = (*READERS.values(), "kit.extra.exchange.runs.forms:FORMS")


def form_names() -> tuple[str, ...]:
    """Return all names of ``--format``."""
    from kit.extra.exchange.runs.forms import FORMS

    return (*READERS, *(name for form in FORMS for name in form.names))


def read_runs(text: str, where: str, form: str = "") -> tuple[TimedRun, ...]:
    """Return every run in the text, in order. ``where``: the file's name. ``form``: the only one to read, by its name.
    Raises UsageError if there is none."""
    from kit.extra.exchange.runs.text_runs import read_text

    if form and form not in form_names():
        raise UsageError(f"unknown format '{form}'", f"use one of: {', '.join(form_names())}")
    runs = _read_file(text, where, form)
    if not runs and form not in READERS:
        _check_alone(text, where, form)
        runs = read_text(text, where, form)
    if not runs:
        raise UsageError(
            f"{where}: no timed run{f' of {form}' if form else ''} in it",
            f"give the output of one of: {', '.join(form_names())}",
        )
    return runs


def _read_file(text: str, where: str, form: str = "") -> tuple[TimedRun, ...]:
    for name in READERS:
        if form in ("", name):
            runs: tuple[TimedRun, ...] = pkgutil.resolve_name(READERS[name])(text, where)
            if runs:
                return tuple(replace(run, form=name) for run in runs)
    return ()


def _check_alone(text: str, where: str, form: str) -> None:
    """Raise UsageError if a program's JSON lies in other text."""
    end = 0
    for brace in re.finditer(r"^\{", text, re.MULTILINE):
        if brace.start() < end:
            continue
        try:
            _, end = json.JSONDecoder().raw_decode(text, brace.start())
        except (ValueError, RecursionError):
            continue
        if runs := _read_file(text[brace.start() : end], where, form):
            first, last = (text.count("\n", 0, position) + 1 for position in (brace.start(), end))
            raise UsageError(
                f"{where}: JSON of {runs[0].form} begins at line {first} and ends at line {last}, in other text",
                f"give it alone: sed -n '{first},{last}p' {where} > alone.json",
            )
