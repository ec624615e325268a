"""Reads the runs in a log, line by line: each in one of the forms of a table. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from kit.core.errors import UsageError
from kit.extra.exchange.runs.forms import (
    FAILED,
    FAILED_AFTER,
    FAILED_BEFORE,
    FORMS,
    REFUSED,
    Form,
    clock_seconds,
    failure,
    looks_like_a_time,
)
from kit.extra.exchange.runs.timed_run import TimedRun, exit_error
from kit.parsers.log_lines import LogLine, log_lines

_CLOCKS = ("real", "user", "sys")
_FACTORS = {"max_rss": 1024.0}


def read_text(text: str, where: str, form: str = "") -> tuple[TimedRun, ...]:
    """Return every run, in order. ``where``: the file's name. ``form``: the only one to read. Raises UsageError for a
    run that is incomplete, and unless ``form`` is given for a line that looks like a time and is of no form."""
    return _Reader(where, form).read(text)


@dataclass
class _Run:
    """A run whose lines are being read. ``each``: the real times of several runs."""

    form: Form
    first: LogLine
    name: str = ""
    name_open: bool = False
    figures: dict[str, float] = field(default_factory=dict)
    mean: bool = False
    each: list[float] = field(default_factory=list)
    error: str = ""


@dataclass
class _Stream:
    """One of several outputs in a log."""

    open: _Run | None = None
    failed: tuple[LogLine, str] | None = None  # time's own line on the next run
    before: str = ""  # another's line, directly before the next run
    last: _Run | None = None  # the run of the line before


class _Reader:
    def __init__(self, where: str, form: str) -> None:
        self._where, self._form = where, form
        self._runs: list[_Run] = []
        self._streams: dict[str, _Stream] = {}

    def read(self, text: str) -> tuple[TimedRun, ...]:
        for line in log_lines(text):
            self._read_line(line, self._streams.setdefault(line.stream, _Stream()))
        for stream in self._streams.values():
            self._close(stream)
            self._check_failed(stream)
        first = [run.figures for run in self._runs if not run.first.repeated]
        runs = [run for run in self._runs if not (run.first.repeated and run.figures in first)]
        return tuple(timed for run in runs if self._wants(run) for timed in _timed_runs(run))

    def _wants(self, run: _Run) -> bool:
        return not self._form or self._form in run.form.names

    def _read_line(self, line: LogLine, stream: _Stream) -> None:
        run = stream.open
        form, match = next(self._matches(line), (None, None))
        if match is None or form is None:
            if run and run.name_open:
                name, end, _ = line.text.partition(run.form.ends)
                run.name, run.name_open = f"{run.name} {name.strip()}", not end
            else:
                self._read_other(line, stream)
            return
        groups = {key.rstrip("_"): value for key, value in match.groupdict().items() if value is not None}
        if run is None or run.form is not form or groups.keys() & run.figures.keys() or "name" in groups:
            if not groups.keys() & {*_CLOCKS, "name", "each"}:
                return  # a figure beside those of a run, but of none
            run = self._open(form, line, stream)
        stream.last = run
        run.name_open = "name" in groups and bool(form.ends) and "end" not in groups
        run.name = groups.get("name", run.name).strip()
        run.mean = run.mean or "mean" in groups
        if "exit" in groups and not run.error:
            run.error = exit_error(int(groups["exit"]))
        if "each" in groups:
            run.each.append(clock_seconds(groups["each"]))
        for key, value in groups.items():
            if key in _CLOCKS:
                run.figures[key] = clock_seconds(value)
            elif key not in ("name", "end", "exit", "each", "mean"):
                run.figures[key] = float(value) * _FACTORS.get(key, 1.0)

    def _matches(self, line: LogLine) -> Iterator[tuple[Form, re.Match[str]]]:
        """Yield what the line is, first without its prefixes: a figure may look like one."""
        for text in dict.fromkeys((line.text, line.whole)):
            for form in FORMS:
                if form.clue.search(text) and (match := form.pattern.match(text)):
                    yield form, match

    def _read_other(self, line: LogLine, stream: _Stream) -> None:
        """Read a line without figures: what it says of the run before or after it, if anything."""
        last, stream.before, stream.last = stream.last, "", None
        if match := FAILED.match(line.text):
            self._check_failed(stream)
            stream.failed = line, failure(match)
            return
        # make's error may be of the run before it, a recipe's, or of the one after it, its own.
        before, after = FAILED_BEFORE.match(line.text), FAILED_AFTER.match(line.text) if last else None
        if before:
            stream.before = failure(before)
        if last and after and not last.error:
            last.error = failure(after)
        if not (before or after or self._form):
            for title, pattern, fix in REFUSED:
                if pattern.match(line.text):
                    raise self._error(line, f"the form of {title} is not read", fix)
            if looks_like_a_time(line.whole):
                raise self._error(line, "looks like the time of a run, but in no known form", _REMOVE)

    def _open(self, form: Form, line: LogLine, stream: _Stream) -> _Run:
        self._close(stream)
        run = stream.open = _Run(form, line)
        run.error = stream.failed[1] if stream.failed else stream.before
        stream.failed, stream.before = None, ""
        self._runs.append(run)
        return run

    def _close(self, stream: _Stream) -> None:
        run, stream.open = stream.open, None
        if run and not run.each and self._wants(run):
            missing = [key for key in run.form.needs if key not in run.figures]
            if missing:
                raise self._error(run.first, f"a run without {' and '.join(missing)}", _REMOVE)

    def _check_failed(self, stream: _Stream) -> None:
        if stream.failed and not self._form:
            raise self._error(stream.failed[0], "no time of that run follows", "give the whole output")

    def _error(self, line: LogLine, what: str, fix: str) -> UsageError:
        return UsageError(f"{self._where}, line {line.number}: {what}: '{line.whole[:100]}'", fix)


_REMOVE = "give all lines of the run, or remove this one; --format NAME reads the runs of one form alone"


def _timed_runs(run: _Run) -> Iterator[TimedRun]:
    for figures in [{"real": real} for real in run.each] or [run.figures]:
        yield TimedRun(run.name, figures, run.error, run.form.title, mean=run.mean and not run.each)
