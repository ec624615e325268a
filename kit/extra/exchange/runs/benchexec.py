"""Reads BenchExec's results: the XML of ``benchexec`` (its doc/result.dtd) and what ``runexec`` prints. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree

from kit.core.errors import UsageError
from kit.extra.exchange.runs.json_document import check_version
from kit.extra.exchange.runs.timed_run import TimedRun, exit_error
from kit.parsers.tried import Tried

#: Both add up user and system time, so that neither is read.
_FIGURES = "time, memory of the control group, failure"
TRIED = (
    Tried(
        "BenchExec", ("3.35",), ("1.x of 2015", "2.3", "3.0"), "from 4 on", "benchexec …: results/*.xml.bz2", _FIGURES
    ),
    Tried("runexec", ("3.35",), command="runexec … > run.txt", figures=_FIGURES),
)
#: What runexec prints, in its order; doc/run-results.md of BenchExec defines it. CPU time is user and system in one.
_KEYS = ("starttime", "terminationreason", "exitcode", "returnvalue", "exitsignal", "walltime", "cputime", "memory")
_PRINTED = re.compile(rf"^(?P<key>{'|'.join(_KEYS)})=(?P<value>[^\n]{{0,200}}?)\r?$", re.MULTILINE)
_RUNEXEC = re.compile(r"^(walltime=[0-9.e+-]{1,40}s|terminationreason=failed)\r?$", re.MULTILINE)
_QUANTITY = re.compile(r"(?P<value>[0-9]{1,15}(?:\.[0-9]{1,30})?(?:e[+-]?[0-9]{1,3})?) ?[sB]?")
_ROOT = re.compile(r"<result\s[^<>]{0,4000}\btoolmodule=")
_GENERATOR = re.compile(r'\sgenerator="BenchExec (?P<version>[^"]{1,40})"')
_FIX = "give the file or the output that BenchExec has written"


def read_benchexec(text: str, where: str) -> tuple[TimedRun, ...]:
    """Return every run of the XML, by the names of its run definition and its task. Raises UsageError."""
    head = text[:10_000]
    if not text.lstrip("\ufeff \t\r\n").startswith("<") or not _ROOT.search(head):
        return ()
    if generator := _GENERATOR.search(head):
        check_version(generator["version"], r"[123]\..*", where, "BenchExec")
    if "<!ENTITY" in text:
        raise UsageError(f"{where}: it defines entities, which BenchExec does not", _FIX)
    try:
        root = ElementTree.fromstring(text.lstrip("\ufeff \t\r\n").encode())
    except ElementTree.ParseError as error:
        raise UsageError(f"{where}: not XML of BenchExec: {error}", _FIX) from None
    definition = root.get("name", "")
    return tuple(
        _run(
            f"{definition}: {run.get('name')}" if definition else run.get("name", ""),
            {column.get("title", ""): column.get("value", "") for column in run.iter("column")},
            where,
        )
        for run in root.iter("run")
    )


def read_runexec(text: str, where: str) -> tuple[TimedRun, ...]:
    """Return every run whose values runexec has printed, ``key=value`` in each line. Raises UsageError."""
    if not _RUNEXEC.search(text):
        return ()
    return tuple(_run("", values, where) for values in _printed(text))


def _printed(text: str) -> Iterator[Mapping[str, str]]:
    """Yield the values of each run: runexec prints them in one order, so that one ends where the order begins anew."""
    values: dict[str, str] = {}
    before = -1
    for match in _PRINTED.finditer(text):
        place = _KEYS.index(match["key"])
        if place <= before:
            yield values
            values = {}
        values[match["key"]], before = match["value"], place
    yield values


def _run(name: str, columns: Mapping[str, str], where: str) -> TimedRun:
    """Return the run; without its time, one that did not take place: it could not start, or the benchmark was ended."""
    real, memory = (_amount(columns, key, where) for key in ("walltime", "memory"))
    if memory is None:  # its name before BenchExec 2.0
        memory = _amount(columns, "memUsage", where)
    figures = {"real": real, "arm_memory": memory}
    error = _error(columns) or ("not run" if real is None else "")
    return TimedRun(name, {key: value for key, value in figures.items() if value is not None}, error)


def _amount(columns: Mapping[str, str], key: str, where: str) -> float | None:
    if not columns.get(key):
        return None
    match = _QUANTITY.fullmatch(columns[key])
    if not match:
        raise UsageError(f"{where}: {key} is not a number: {columns[key][:40]!r}", _FIX)
    return float(match["value"])


def _error(columns: Mapping[str, str]) -> str:
    """Return why a run failed. Where BenchExec has understood its output, that counts: solvers end with 10 or 20."""
    category, status, code = (columns.get(key) or "" for key in ("category", "status", "returnvalue"))
    if reason := columns.get("terminationreason"):
        return f"ended by BenchExec: {reason}"
    if signal := columns.get("exitsignal"):
        return f"ended by signal {signal}"
    if category == "error" and status:
        return status
    if category in ("correct", "wrong") or status.startswith(("true", "false")):
        return ""
    return exit_error(int(code)) if code.isdecimal() and len(code) < 10 else ""
